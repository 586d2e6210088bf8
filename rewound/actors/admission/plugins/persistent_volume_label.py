"""PersistentVolumeLabel: new volumes on a disk of a cloud provider get the labels of its region and zone.

This server calls no cloud provider, so the configuration of the plugin has the region and the zones of the disks.
Volumes that a provisioner created keep their labels. The node affinity of a volume gets the same values, unless it
already has a rule for one of the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.persistent_volumes import VOLUME_SPEC
from rewound.actors.kinds.validation import label_value
from rewound.actors.messages import Object
from rewound.actors.names import Names

VOLUMES: Final = Resource("", "persistentvolumes")
# The sources whose disks are in one zone: their names in messages, and the field that identifies the disk.
DISKS: Final = {
    "awsElasticBlockStore": ("AWS EBS volume", "volumeID"),
    "gcePersistentDisk": ("GCE PD volume", "pdName"),
    "azureDisk": ("AzureDisk volume", "diskName"),
    "cinder": ("Cinder volume", "volumeID"),
    "vsphereVolume": ("vSphere Volume", "volumePath"),
}
BEING_PROVISIONED: Final = "placeholder-for-provisioning"
ZONE_SEPARATOR: Final = "__"


@dataclass(frozen=True, slots=True)
class Location:
    region: str
    zones: tuple[str, ...]


class PersistentVolumeLabel(Plugin):
    name = "PersistentVolumeLabel"
    thread_safe = True
    mutates = (rule(CREATE, of=(VOLUMES,)),)

    def __init__(self, names: Names, location: Location | None) -> None:
        self._location = location
        self._provisioned_by = names.key("provisioned-by", "pv")
        self._zone, self._region = names.key("zone", "topology"), names.key("region", "topology")
        self._old_zone = names.key("zone", "failure-domain.beta")
        self._old_region = names.key("region", "failure-domain.beta")

    def mutate(self, request: AdmissionRequest) -> Object | None:
        volume = request.object
        assert volume is not None
        labels = self._labels(volume, request)
        if not labels:
            return None
        metadata = dict(volume["metadata"])
        metadata["labels"] = dict(sorted({**metadata.get("labels", {}), **labels}.items()))
        rules = [
            {"key": key, "operator": "In", "values": self._values(key, value, request)}
            for key, value in labels.items()
        ]
        return {**volume, "metadata": metadata, "spec": _with_affinity(volume["spec"], rules)}

    def _values(self, key: str, value: str, request: AdmissionRequest) -> list[str]:
        """The values of a label; a zone label may have several zones."""
        if key not in (self._zone, self._old_zone):
            return [value]
        zones = {zone.strip() for zone in value.split(ZONE_SEPARATOR)}
        if "" in zones:
            raise forbidden(request, f"failed to convert label string for Zone: {value} to a Set")
        return sorted(zones)

    def _labels(self, volume: Object, request: AdmissionRequest) -> dict[str, str]:
        own = volume["metadata"].get("labels", {})
        if self._provisioned_by in volume["metadata"].get("annotations", {}):
            for keys in ((self._region, self._zone), (self._old_region, self._old_zone)):
                if all(key in own for key in keys):
                    return {key: own[key] for key in keys}
        source = next((one for one in DISKS if volume["spec"].get(one) is not None), "")
        if not source:
            return {}
        shown, field = DISKS[source]
        disk = volume["spec"][source].get(field, "")
        if disk == BEING_PROVISIONED:
            return {}
        if self._location is None:
            why = "the configuration of PersistentVolumeLabel has no region and zones"
            raise forbidden(request, f"error querying {shown} {disk}: {why}")
        return {self._region: self._location.region, self._zone: ZONE_SEPARATOR.join(self._location.zones)}


def _with_affinity(spec: Object, rules: list[Object]) -> Object:
    affinity = spec.get("nodeAffinity") or {}
    required = affinity.get("required") or {}
    terms = required.get("nodeSelectorTerms") or [{}]
    used = {one.get("key") for term in terms for one in term.get("matchExpressions", ())}
    if any(one["key"] in used for one in rules):
        return spec
    added = [{**term, "matchExpressions": [*term.get("matchExpressions", ()), *rules]} for term in terms]
    required = {**required, "nodeSelectorTerms": added}
    return VOLUME_SPEC.arranged({**spec, "nodeAffinity": {**affinity, "required": required}})


def parse_location(given: PluginConfiguration | None) -> Location | None:
    """`{"region": "r", "zones": ["a", "b"]}`."""
    if given is None:
        return None
    given.check_fields("region", "zones")
    region, zones = given.document.get("region"), given.document.get("zones")
    if not isinstance(region, str) or not region or label_value(region):
        raise given.error("region", "must be a label value")
    if not isinstance(zones, list) or not zones or not all(isinstance(one, str) and one for one in zones):
        raise given.error("zones", "must be a list of zones")
    distinct = tuple(sorted(set(zones)))
    if label_value(ZONE_SEPARATOR.join(distinct)):
        raise given.error("zones", f"joined by {ZONE_SEPARATOR}, must be a label value")
    return Location(region, distinct)
