"""Table columns of volumes and of claims to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, Cell, Column, at
from actors.messages import Object
from actors.names import Names

UNSET: Final = "<unset>"
SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_VOLUME_MODE: Final = Column(
    "VolumeMode", "string", "Filesystem or Block.", at("spec", "volumeMode", missing=UNSET), priority=1
)


def volume_columns(names: Names) -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Capacity", "string", "Capacity of the volume.", at("spec", "capacity", "storage", missing="0")
        ),
        Column(
            "Access Modes",
            "string",
            "Access modes.",
            lambda stored, _: _short(stored["spec"].get("accessModes", ())),
        ),
        Column(
            "Reclaim Policy",
            "string",
            "What the reclaim policy does with the volume after its claim is deleted.",
            at("spec", "persistentVolumeReclaimPolicy"),
        ),
        Column("Status", "string", "Phase.", _phase),
        Column("Claim", "string", "Namespace and name of its claim.", _claim),
        Column("StorageClass", "string", "Storage class of the volume.", _class(names)),
        Column("Reason", "string", "Reason of the failure.", at("status", "reason")),
        AGE,
        _VOLUME_MODE,
    )


def claim_columns(names: Names) -> tuple[Column, ...]:
    return (
        NAME,
        Column("Status", "string", "Phase.", _phase),
        Column("Volume", "string", "Volume that the claim is bound to.", at("spec", "volumeName")),
        Column("Capacity", "string", "Capacity of the bound volume.", _bound_size),
        Column("Access Modes", "string", "Access modes.", _bound_modes),
        Column("StorageClass", "string", "Storage class that the claim requests.", _class(names)),
        AGE,
        _VOLUME_MODE,
    )


def _short(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in SHORT_MODES.items() if mode in modes)


def _phase(stored: Object, _: int) -> str:
    return (
        "Terminating" if "deletionTimestamp" in stored["metadata"] else str(stored["status"].get("phase", ""))
    )


def _claim(stored: Object, _: int) -> str:
    claim = stored["spec"].get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def _class(names: Names) -> Cell:
    key = names.key("storage-class", "volume.beta")

    def cell(stored: Object, _: int) -> str:
        annotated = stored["metadata"].get("annotations", {}).get(key)
        return str(stored["spec"].get("storageClassName", "") if annotated is None else annotated)

    return cell


def _bound_size(stored: Object, _: int) -> str:
    if not stored["spec"].get("volumeName"):
        return ""
    return str(stored["status"].get("capacity", {}).get("storage", "0"))


def _bound_modes(stored: Object, _: int) -> str:
    return _short(stored["status"].get("accessModes", ())) if stored["spec"].get("volumeName") else ""
