"""Which volume satisfies a claim: the rules that the volume binder and the scheduler share.

All functions are pure. A volume belongs to a claim if its `claimRef` names the claim (and its uid, if set); it may have
been reserved like this before the claim existed. Otherwise the smallest free volume of the class that is large enough,
and has the access modes, the volume mode and the labels, is the best match.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify
from typing import Final

from rewound.actors.kinds.declaration.meta import LabelMatcher, label_selector_matches
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import nanos_of
from rewound.actors.runtime.steps import Steps, parts_of

WAITS: Final = "WaitForFirstConsumer"

Rank = tuple[int, int, str]  # number of access modes, capacity, name
Ranked = tuple[Rank, Object]


class VolumeKeys:
    """The annotations and finalizers by which binder, scheduler and provisioners communicate."""

    def __init__(self, names: Names) -> None:
        self.bind_completed = names.key("bind-completed", "pv")
        self.bound_by_controller = names.key("bound-by-controller", "pv")
        self.provisioned_by = names.key("provisioned-by", "pv")
        self.migrated_to = names.key("migrated-to", "pv")
        self.selected_node = names.key("selected-node", "volume")
        self.provisioner = names.key("storage-provisioner", "volume")
        self.beta_provisioner = names.key("storage-provisioner", "volume.beta")
        # Finalizers of volumes whose storage is to be deleted first, by a plugin or by an external provisioner.
        self.of_plugin = names.key("pv-controller")
        self.of_provisioner = names.key("finalizer", "external-provisioner.volume")
        self.beta_class = names.key("storage-class", "volume.beta")


def annotations_of(stored: Object) -> dict[str, str]:
    return stored["metadata"].get("annotations") or {}


def class_of(stored: Object, keys: VolumeKeys) -> str:
    """The storage class of a claim or a volume; "" without one."""
    annotated = annotations_of(stored).get(keys.beta_class)
    return stored["spec"].get("storageClassName") or "" if annotated is None else annotated


def attributes_class_of(stored: Object) -> str:
    """The VolumeAttributesClass of a claim or a volume; "" without one, and in versions that have none."""
    return stored["spec"].get("volumeAttributesClassName") or ""


def is_reserved_for(volume: Object, claim: Object) -> bool:
    """Whether the volume is bound to the claim, or reserved for it."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    metadata = claim["metadata"]
    if (reference.get("namespace"), reference.get("name")) != (metadata["namespace"], metadata["name"]):
        return False
    return reference.get("uid", "") in ("", metadata["uid"])


def capacity(volume: Object) -> int:
    return nanos_of((volume["spec"].get("capacity") or {}).get("storage", "0"))


def requested(claim: Object) -> int:
    resources = claim["spec"].get("resources") or {}
    return nanos_of((resources.get("requests") or {}).get("storage", "0"))


def volume_modes_differ(claim: Object, volume: Object) -> bool:
    return _mode(claim) != _mode(volume)


def has_access_modes(volume: Object, claim: Object) -> bool:
    offered = volume["spec"].get("accessModes") or ()
    return all(mode in offered for mode in claim["spec"].get("accessModes") or ())


def refusal(volume: Object, claim: Object, keys: VolumeKeys) -> str:
    """Why a volume that the claim names is not bound to it; "" if it can be."""
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if class_of(volume, keys) != class_of(claim, keys):
        return "storageClassName does not match"
    if attributes_class_of(volume) != attributes_class_of(claim):
        return "volumeAttributesClassName does not match"
    if volume_modes_differ(claim, volume):
        return "incompatible volumeMode"
    if not has_access_modes(volume, claim):
        return "incompatible accessMode"
    return ""


def is_free(volume: Object) -> bool:
    return not volume["spec"].get("claimRef") and volume["status"].get("phase") == "Available"


def is_free_match(volume: Object, claim: Object, keys: VolumeKeys) -> bool:
    """Whether an unreserved volume satisfies the claim, wherever it is. For many volumes there is `FreeVolumes`."""
    if not is_free(volume) or refusal(volume, claim, keys):
        return False
    selector = claim["spec"].get("selector")
    return selector is None or label_selector_matches(selector, volume["metadata"].get("labels") or {})


class FreeVolumes:
    """The unreserved volumes that satisfy a claim: its selector, which may be long, is compiled once."""

    def __init__(self, claim: Object, keys: VolumeKeys) -> None:
        self._claim, self._keys = claim, keys
        selector = claim["spec"].get("selector")
        self._labels = None if selector is None else LabelMatcher(selector)

    def has(self, volume: Object) -> bool:
        if not is_free(volume) or refusal(volume, self._claim, self._keys):
            return False
        return self._labels is None or self._labels.matches(volume["metadata"].get("labels") or {})


def ranked_matches(
    claim: Object, volumes: Iterable[Object], keys: VolumeKeys, *, only_reserved: bool = False
) -> Steps[list[Ranked]]:
    """A heap of the volumes that may be bound to a claim: one reserved for it, otherwise the smallest first.

    Volumes with no more access modes than necessary come first, ties are broken by name. With `only_reserved` the
    scheduler chooses among the free ones.
    """
    found: list[Ranked] = []
    free = FreeVolumes(claim, keys)
    for part in parts_of(volumes):
        for volume in part:
            if is_reserved_for(volume, claim):
                if reserved_fits(volume, claim):
                    return [(_rank(volume), volume)]
            elif not only_reserved and free.has(volume):
                found.append((_rank(volume), volume))
        yield
    heapify(found)
    return found


def reserved_fits(volume: Object, claim: Object) -> bool:
    """Whether a volume reserved for the claim can be bound to it: class and labels do not matter."""
    return (
        capacity(volume) >= requested(claim)
        and not volume_modes_differ(claim, volume)
        and attributes_class_of(volume) == attributes_class_of(claim)
        and "deletionTimestamp" not in volume["metadata"]
        and has_access_modes(volume, claim)
    )


def _rank(volume: Object) -> Rank:
    modes = set(volume["spec"].get("accessModes") or ())
    return len(modes), capacity(volume), volume["metadata"]["name"]


def _mode(stored: Object) -> str:
    return stored["spec"].get("volumeMode") or "Filesystem"
