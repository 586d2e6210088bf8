"""Volume mounts and volume devices of a container."""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.kinds.core.pods.paths import descending, without_backsteps
from actors.kinds.core.pods.volumes import Volumes
from actors.kinds.schema.fields import BOOL, STRING, Field, Struct
from actors.kinds.validation import FieldErrors, forbidden, invalid, not_found, not_supported, required
from actors.messages import Object

PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
NOT_UNIQUE: Final = "must be unique"

VOLUME_MOUNT = Struct(
    "core.v1.VolumeMount",
    Field("name", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2),
    Field("mountPath", STRING, 3, required=True, always=True),
    Field("subPath", STRING, 4),
    Field("mountPropagation", STRING, 5, pointer=True),
    Field("subPathExpr", STRING, 6),
)
VOLUME_DEVICE = Struct(
    "core.v1.VolumeDevice",
    Field("name", STRING, 1, required=True, always=True),
    Field("devicePath", STRING, 2, required=True, always=True),
)


class _Taken(NamedTuple):
    """Names and paths of the devices of a container, for its mounts, and the reverse."""

    names: frozenset[str]
    paths: frozenset[str]

    @classmethod
    def by(cls, entries: list[Object], part: str) -> _Taken:
        """Paths of the last entry for each volume."""
        paths = {entry["name"]: entry[part] for entry in entries}
        return cls(frozenset(paths), frozenset(paths.values()))


def mount_rules(errors: FieldErrors, container: Object, volumes: Volumes, field: str) -> None:
    """`field` is the container; messages about paths inside a volume name the list, not the mount."""
    mounts, devices = container.get("volumeMounts", ()), container.get("volumeDevices", ())
    if not mounts and not devices:
        return
    seen: set[str] = set()
    taken = _Taken.by(devices, "devicePath")
    for index, mount in enumerate(mounts):
        path = mount["mountPath"]
        if len(mount) > 2 or path in seen or devices or mount["name"] not in volumes or not path:
            _one_mount_rules(errors, mount, seen, taken, volumes, f"{field}.volumeMounts[{index}]")
            _sub_path_rules(errors, mount, container, f"{field}.volumeMounts", index)
        seen.add(path)
    _device_rules(errors, devices, mounts, volumes, f"{field}.volumeDevices")


def _one_mount_rules(
    errors: FieldErrors, mount: Object, seen: set[str], taken: _Taken, volumes: Volumes, field: str
) -> None:
    name, path = mount["name"], mount["mountPath"]
    if not name:
        errors.add(required(f"{field}.name"))
    if name not in volumes:
        errors.add(not_found(f"{field}.name", name))
    if not path:
        errors.add(required(f"{field}.mountPath"))
    if path in seen:
        errors.add(invalid(f"{field}.mountPath", path, NOT_UNIQUE))
    if name in taken.names:
        errors.add(invalid(f"{field}.name", name, "must not already exist in volumeDevices"))
    if path in taken.paths:
        text = "must not already exist as a path in volumeDevices"
        errors.add(invalid(f"{field}.mountPath", path, text))


def _sub_path_rules(errors: FieldErrors, mount: Object, container: Object, field: str, index: int) -> None:
    path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors.add_each(f"{field}.subPath", path, descending(path))
    if expression and path:
        text = "subPathExpr and subPath are mutually exclusive"
        errors.add(invalid(f"{field}[{index}].subPathExpr", expression, text))
    errors.add_each(f"{field}.subPathExpr", expression, descending(expression))
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        _propagation_rules(errors, propagation, container, f"{field}.mountPropagation")


def _propagation_rules(errors: FieldErrors, propagation: str, container: Object, field: str) -> None:
    if propagation not in PROPAGATIONS:
        errors.add(not_supported(field, propagation, PROPAGATIONS))
        return
    if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.add(forbidden(field, text))


def _device_rules(
    errors: FieldErrors, devices: list[Object], mounts: list[Object], volumes: Volumes, field: str
) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    taken = _Taken.by(mounts, "mountPath")
    for index, device in enumerate(devices):
        name, path, here = device["name"], device["devicePath"], f"{field}[{index}]"
        _device_name_rules(errors, name, names, volumes, f"{here}.name")
        _device_path_rules(errors, path, paths, f"{here}.devicePath")
        if name in taken.names:
            errors.add(invalid(f"{here}.name", name, "must not already exist in volumeMounts"))
        if path in taken.paths:
            text = "must not already exist as a path in volumeMounts"
            errors.add(invalid(f"{here}.devicePath", path, text))
        if name:
            names.add(name)


def _device_name_rules(errors: FieldErrors, name: str, taken: set[str], volumes: Volumes, field: str) -> None:
    if not name:
        errors.add(required(field))
    if name in taken:
        errors.add(invalid(field, name, NOT_UNIQUE))
    volume = volumes.get(name)
    if volume is None:
        errors.add(not_found(field, name))
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.add(invalid(field, name, text))


def _device_path_rules(errors: FieldErrors, path: str, taken: set[str], field: str) -> None:
    if not path:
        errors.add(required(field))
    if path in taken:
        errors.add(invalid(field, path, NOT_UNIQUE))
    if without_backsteps(path):
        errors.add(invalid(field, path, "can not contain backsteps ('..')"))
    else:
        taken.add(path)
