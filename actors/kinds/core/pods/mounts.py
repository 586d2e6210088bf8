"""Where a container sees the volumes of its pod: as folders, or as raw devices."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.pods.paths import descending, without_backsteps
from actors.kinds.core.pods.volumes import Volumes
from actors.kinds.schema.fields import BOOL, STRING, Field, Struct
from actors.kinds.validation.checks import (
    FieldError,
    each,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from actors.messages import Object

PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
UNIQUE: Final = "must be unique"

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


def mount_rules(container: Object, volumes: Volumes, field: str) -> list[FieldError]:
    """`field` is the container; messages about paths inside a volume name the list, not the mount."""
    mounts, devices = container.get("volumeMounts", ()), container.get("volumeDevices", ())
    if not mounts and not devices:
        return []
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        path = mount["mountPath"]
        if len(mount) > 2 or path in seen or devices or mount["name"] not in volumes or not path:
            errors += _mount(mount, seen, devices, volumes, f"{field}.volumeMounts[{index}]")
            errors += _inside(mount, container, f"{field}.volumeMounts", index)
        seen.add(path)
    return errors + _device_rules(devices, mounts, volumes, f"{field}.volumeDevices")


def _mount(
    mount: Object, seen: set[str], devices: list[Object], volumes: Volumes, field: str
) -> list[FieldError]:
    name, path = mount["name"], mount["mountPath"]
    errors = [] if name else [required(f"{field}.name")]
    if name not in volumes:
        errors.append(not_found(f"{field}.name", name))
    if not path:
        errors.append(required(f"{field}.mountPath"))
    if path in seen:
        errors.append(invalid(f"{field}.mountPath", path, UNIQUE))
    if any(device["name"] == name for device in devices):
        errors.append(invalid(f"{field}.name", name, "must not already exist in volumeDevices"))
    if path in _paths(devices, "devicePath"):
        text = "must not already exist as a path in volumeDevices"
        errors.append(invalid(f"{field}.mountPath", path, text))
    return errors


def _paths(entries: list[Object], part: str) -> set[str]:
    """Of entries for one volume the last one counts."""
    return set({entry["name"]: entry[part] for entry in entries}.values())


def _inside(mount: Object, container: Object, field: str, index: int) -> list[FieldError]:
    path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = each(f"{field}.subPath", path, descending(path))
    if expression and path:
        text = "subPathExpr and subPath are mutually exclusive"
        errors.append(invalid(f"{field}[{index}].subPathExpr", expression, text))
    errors += each(f"{field}.subPathExpr", expression, descending(expression))
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        errors += _propagation_rules(propagation, container, f"{field}.mountPropagation")
    return errors


def _propagation_rules(propagation: str, container: Object, field: str) -> list[FieldError]:
    if propagation not in PROPAGATIONS:
        return [not_supported(field, propagation, PROPAGATIONS)]
    if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        return [forbidden(field, text)]
    return []


def _device_rules(
    devices: list[Object], mounts: list[Object], volumes: Volumes, field: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(devices):
        name, path, here = device["name"], device["devicePath"], f"{field}[{index}]"
        errors += _device_name_rules(name, names, volumes, f"{here}.name")
        errors += _device_path_rules(path, paths, f"{here}.devicePath")
        if any(mount["name"] == name for mount in mounts):
            errors.append(invalid(f"{here}.name", name, "must not already exist in volumeMounts"))
        if path in _paths(mounts, "mountPath"):
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(f"{here}.devicePath", path, text))
        if name:
            names.add(name)
    return errors


def _device_name_rules(name: str, taken: set[str], volumes: Volumes, field: str) -> list[FieldError]:
    errors = [] if name else [required(field)]
    if name in taken:
        errors.append(invalid(field, name, UNIQUE))
    volume = volumes.get(name)
    if volume is None:
        errors.append(not_found(field, name))
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(field, name, text))
    return errors


def _device_path_rules(path: str, taken: set[str], field: str) -> list[FieldError]:
    errors = [] if path else [required(field)]
    if path in taken:
        errors.append(invalid(field, path, UNIQUE))
    if without_backsteps(path):
        errors.append(invalid(field, path, "can not contain backsteps ('..')"))
    else:
        taken.add(path)
    return errors
