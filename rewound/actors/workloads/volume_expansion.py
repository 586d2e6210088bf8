"""The volume expander: handles bound claims that request more than they have.

Volumes that this server provides grow at once, in one step, as if a driver and a node had done it. All others wait for
their driver; an Event on the claim says so, as in v1.25.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.messages import Object
from rewound.actors.quantity import nanos_of
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.volume_matching import capacity, is_reserved_for, requested
from rewound.actors.workloads.volumes import MIGRATED, PROVISIONER

_MOVED: Final = {  # the plugin in MIGRATED that has the volumes of a source
    "awsElasticBlockStore": "aws-ebs",
    "azureDisk": "azure-disk",
    "azureFile": "azure-file",
    "cinder": "cinder",
    "gcePersistentDisk": "gce-pd",
    "vsphereVolume": "vsphere-volume",
}
_IGNORED: Final = (
    "Ignoring the PVC: didn't find a plugin capable of expanding the volume; "
    "waiting for an external controller to process this PVC."
)


class VolumeExpander(WorkloadController):
    """Expands the volumes that this server provides with their claims; other volumes wait for their drivers."""

    name, account, component = "persistentvolume-expander", "expand-controller", "volume_expand"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._resizer = self.names.key("storage-resizer", "volume")
        self._claims = self.cache.collection("persistentvolumeclaims")
        self._volumes = self.cache.collection("persistentvolumes")
        self._claims.listen(self._claim_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        for claim in self._claims:
            self._claim_changed(None, claim)

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or new["status"].get("phase") != "Bound":
            return
        if old is None or requested(new) > requested(old) or _held(new) > _held(old):
            self.queue.add(key_of(new))

    async def reconcile(self, key: Key) -> None:
        claim = self._claims.get(*key)
        if claim is None or claim["status"].get("phase") != "Bound" or requested(claim) <= _held(claim):
            return
        volume = self._volumes.get("", claim["spec"].get("volumeName", ""))
        if volume is None or not is_reserved_for(volume, claim):
            return
        if (volume["spec"].get("csi") or {}).get("driver") == PROVISIONER:
            await self._expand(key, claim, volume)
        elif (plugin := next((_MOVED[one] for one in _MOVED if one in volume["spec"]), None)) is not None:
            name = self.names.key(plugin)
            moved = f"CSI migration enabled for {name}; waiting for external resizer to expand the pvc"
            self.recorder.event(self._claims.definition, claim, "Normal", "ExternalExpanding", moved)
            patch = {"metadata": {"annotations": {self._resizer: MIGRATED[plugin]}}}
            await self.client.patch(self._claims.definition, *key, patch)
        else:
            event_type = "Normal" if "fc" in volume["spec"] else "Warning"
            self.recorder.event(self._claims.definition, claim, event_type, "ExternalExpanding", _IGNORED)

    async def _expand(self, key: Key, claim: Object, volume: Object) -> None:
        size = claim["spec"]["resources"]["requests"]["storage"]
        if capacity(volume) < requested(claim):
            patch = {"spec": {"capacity": {"storage": size}}}
            await self.client.patch(self._volumes.definition, *key_of(volume), patch)
        patch = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": {"capacity": {"storage": size}}}
        await self.client.patch(self._claims.definition, *key, patch, subresource="status")


def _held(claim: Object) -> int:
    return nanos_of((claim["status"].get("capacity") or {}).get("storage", "0"))
