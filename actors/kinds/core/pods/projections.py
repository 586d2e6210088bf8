"""Keys and fields that become files or variables of containers: where they come from and what they may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors.kinds.core.pods.paths import unreserved
from actors.kinds.schema.fields import BOOL, INT32, INT64, QUANTITY, STRING, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    each,
    forbidden,
    invalid,
    not_supported,
    qualified_name,
    required,
)
from actors.messages import Object

FILE_MODE: Final = 0o644
HIGHEST_MODE: Final = 0o777
SHORTEST_TOKEN: Final = 10 * 60  # seconds
LONGEST_TOKEN: Final = 1 << 32

KEY_TO_PATH = Struct(
    "core.v1.KeyToPath",
    Field("key", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("mode", INT32, 3, pointer=True),
)
OBJECT_FIELD_SELECTOR = Struct(
    "core.v1.ObjectFieldSelector",
    Field("apiVersion", STRING, 1, default="v1"),
    Field("fieldPath", STRING, 2, required=True, always=True),
    atomic=True,
)
RESOURCE_FIELD_SELECTOR = Struct(
    "core.v1.ResourceFieldSelector",
    Field("containerName", STRING, 1),
    Field("resource", STRING, 2, required=True, always=True),
    Field("divisor", QUANTITY, 3),
    atomic=True,
)
DOWNWARD_API_VOLUME_FILE = Struct(
    "core.v1.DownwardAPIVolumeFile",
    Field("path", STRING, 1, required=True, always=True),
    Field("fieldRef", OBJECT_FIELD_SELECTOR, 2, pointer=True),
    Field("resourceFieldRef", RESOURCE_FIELD_SELECTOR, 3, pointer=True),
    Field("mode", INT32, 4, pointer=True),
)
SECRET_VOLUME_SOURCE = Struct(
    "core.v1.SecretVolumeSource",
    Field("secretName", STRING, 1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("defaultMode", INT32, 3, pointer=True, default=FILE_MODE),
    Field("optional", BOOL, 4, pointer=True),
)
CONFIG_MAP_VOLUME_SOURCE = Struct(
    "core.v1.ConfigMapVolumeSource",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("defaultMode", INT32, 3, pointer=True, default=FILE_MODE),
    Field("optional", BOOL, 4, pointer=True),
)
DOWNWARD_API_VOLUME_SOURCE = Struct(
    "core.v1.DownwardAPIVolumeSource",
    Field("items", ListOf(DOWNWARD_API_VOLUME_FILE), 1),
    Field("defaultMode", INT32, 2, pointer=True, default=FILE_MODE),
)
SECRET_PROJECTION = Struct(
    "core.v1.SecretProjection",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("optional", BOOL, 4, pointer=True),
)
DOWNWARD_API_PROJECTION = Struct(
    "core.v1.DownwardAPIProjection", Field("items", ListOf(DOWNWARD_API_VOLUME_FILE), 1)
)
CONFIG_MAP_PROJECTION = Struct(
    "core.v1.ConfigMapProjection",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("optional", BOOL, 4, pointer=True),
)
SERVICE_ACCOUNT_TOKEN_PROJECTION = Struct(
    "core.v1.ServiceAccountTokenProjection",
    Field("audience", STRING, 1),
    Field("expirationSeconds", INT64, 2, pointer=True, default=3600),
    Field("path", STRING, 3, required=True, always=True),
)
VOLUME_PROJECTION = Struct(
    "core.v1.VolumeProjection",
    Field("secret", SECRET_PROJECTION, 1, pointer=True),
    Field("downwardAPI", DOWNWARD_API_PROJECTION, 2, pointer=True),
    Field("configMap", CONFIG_MAP_PROJECTION, 3, pointer=True),
    Field("serviceAccountToken", SERVICE_ACCOUNT_TOKEN_PROJECTION, 4, pointer=True),
)
PROJECTED_VOLUME_SOURCE = Struct(
    "core.v1.ProjectedVolumeSource",
    Field("sources", ListOf(VOLUME_PROJECTION), 1, always=True),
    Field("defaultMode", INT32, 2, pointer=True, default=FILE_MODE),
)

# Fields of a pod that can be spoken of; which of them a file or a variable may hold follows below.
_SPOKEN_OF: Final = frozenset(
    (
        *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
        *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName"),
        *("status.phase", "status.hostIP", "status.podIP", "status.podIPs"),
    )
)
IN_FILES: Final = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
)
IN_VARIABLES: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.podIP", "status.podIPs"),
)
_AMOUNTS: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_BYTE_STEPS: Final = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E")))
_DIVISORS: Final[tuple[str, ...]] = (*_BYTE_STEPS, *(f"1{unit}i" for unit in ("K", "M", "G", "T", "P", "E")))
_DIVIDED: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def secret_rules(source: Object, field: str) -> list[FieldError]:
    errors = [] if source.get("secretName") else [required(f"{field}.secretName")]
    return errors + _mode(source, field) + _items(source, field)


def config_map_rules(source: Object, field: str) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{field}.name")]
    return errors + _mode(source, field) + _items(source, field)


def downward_api_rules(source: Object, field: str) -> list[FieldError]:
    errors = _mode(source, field)
    for file in source.get("items", ()):
        errors += _file(file, field)
    return errors


def projected_rules(source: Object, field: str) -> list[FieldError]:
    errors = _mode(source, field)
    taken: set[str] = set()
    for index, projection in enumerate(source["sources"] or ()):
        errors += _projection(projection, f"{field}.sources[{index}]", field, taken)
    return errors


def _mode(holder: Object, field: str, name: str = "defaultMode") -> list[FieldError]:
    mode = holder.get(name)
    if mode is None or 0 <= mode <= HIGHEST_MODE:
        return []
    return [invalid(f"{field}.{name}", mode, "must be a number between 0 and 0777 (octal), both inclusive")]


def _items(source: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items", ())):
        errors += _item(item, f"{field}.items[{index}]")
    return errors


def _item(item: Object, field: str) -> list[FieldError]:
    errors = [required(f"{field}.{part}") for part in ("key", "path") if not item[part]]
    errors += each(f"{field}.path", item["path"], unreserved(item["path"]))
    return errors + _mode(item, field, "mode")


def _file(file: Object, field: str) -> list[FieldError]:
    """Errors name the volume, not the file in it: so they have always been told."""
    path, reference, amount = file["path"], file.get("fieldRef"), file.get("resourceFieldRef")
    errors = [] if path else [required(f"{field}.path")]
    errors += each(f"{field}.path", path, unreserved(path))
    if reference is not None:
        errors += field_reference_rules(reference, IN_FILES, f"{field}.fieldRef")
        if amount is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(field, "resource", text))
    elif amount is not None:
        errors += amount_reference_rules(amount, f"{field}.resourceFieldRef", needs_container=True)
    else:
        errors.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return errors + _mode(file, field, "mode")


def field_reference_rules(reference: Object, supported: tuple[str, ...], field: str) -> list[FieldError]:
    version, path = reference.get("apiVersion", ""), reference["fieldPath"]
    if version == "v1" and path in supported:
        return []
    if not version or not path:
        return [required(f"{field}.{'fieldPath' if version else 'apiVersion'}")]
    owner, key = _subscript(path)
    if version != "v1":
        return [_unreadable(path, f"unsupported pod version: {version}", field)]
    if key is not None:
        return _subscript_rules(path, owner, key, field)
    path = "spec.nodeName" if path == "spec.host" else path
    if path not in _SPOKEN_OF:
        return [_unreadable(path, f"field label not supported: {path}", field)]
    return [] if path in supported else [not_supported(f"{field}.fieldPath", path, supported)]


def _subscript(path: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` is the owner and the key of one value."""
    owner, opening, key = path.removesuffix("']").partition("['")
    if not path.endswith("']") or not opening or not owner:
        return path, None
    return owner, key


def _subscript_rules(path: str, owner: str, key: str, field: str) -> list[FieldError]:
    if owner == "metadata.annotations":
        return each(field, key.lower(), qualified_name(key.lower()))
    if owner == "metadata.labels":
        return each(field, key, qualified_name(key))
    return [_unreadable(path, f"field label does not support subscript: {path}", field)]


def _unreadable(path: str, why: str, field: str) -> FieldError:
    return invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {why}")


def amount_reference_rules(
    reference: Object, field: str, *, needs_container: bool = False
) -> list[FieldError]:
    name = reference["resource"]
    errors: list[FieldError] = []
    if needs_container and not reference.get("containerName"):
        errors.append(required(f"{field}.containerName"))
    elif not name:
        errors.append(required(f"{field}.resource"))
    elif name not in _AMOUNTS and not name.startswith(_PAGES):
        errors.append(not_supported(f"{field}.resource", name, _AMOUNTS))
    return errors + _divisor(name, reference["divisor"], field)


def _divisor(name: str, divisor: str, field: str) -> list[FieldError]:
    if divisor == "0":
        return []
    supported, listed = _DIVISORS, ", ".join(_DIVISORS)
    what = "hugepages" if name.startswith(_PAGES) else _DIVIDED.get(name.partition(".")[2], "")
    if what == "cpu":
        supported, listed = ("1m", "1"), "1m and 1"
    if divisor in supported or (what != "hugepages" and name not in _AMOUNTS):
        return []
    text = f"only divisor's values {listed} are supported with the {what} resource"
    return [invalid(f"{field}.divisor", name, text)]


def _projection(source: Object, field: str, volume: str, taken: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for part in ("secret", "configMap"):
        if part in source:
            errors += _projected_keys(source[part], f"{field}.{part}", volume, taken)
    if "downwardAPI" in source:
        for file in source["downwardAPI"].get("items", ()):
            errors += _file(file, f"{field}.downwardAPI")
            errors += _taken(file["path"], file["path"], volume, taken)
    if "serviceAccountToken" in source:
        errors += _token(source["serviceAccountToken"], f"{field}.serviceAccountToken", volume)
    if len(source) > 1:
        errors.append(forbidden(field, "may not specify more than 1 volume type"))
    return errors


def _projected_keys(source: Object, field: str, volume: str, taken: set[str]) -> list[FieldError]:
    name = source.get("name", "")
    errors = [] if name else [required(f"{field}.name")]
    for index, item in enumerate(source.get("items", ())):
        errors += _item(item, f"{field}.items[{index}]")
        errors += _taken(item["path"], name, volume, taken)
    return errors


def _taken(path: str, shown: str, volume: str, taken: set[str]) -> list[FieldError]:
    if path in taken:
        return [invalid(volume, shown, "conflicting duplicate paths")]
    if path:
        taken.add(path)
    return []


def _token(token: Object, field: str, volume: str) -> list[FieldError]:
    seconds = token.get("expirationSeconds", 0)
    errors: list[FieldError] = []
    if seconds < SHORTEST_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{field}.expirationSeconds", seconds, text))
    if seconds > LONGEST_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{field}.expirationSeconds", seconds, text))
    return errors if token["path"] else [*errors, required(f"{volume}.path")]


def tokens_of(volumes: list[Object], field: str) -> Iterator[tuple[str, Any]]:
    """Every projected token with the path of its field."""
    for at, volume in enumerate(volumes):
        for index, source in enumerate(volume.get("projected", {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                here = f"{field}[{at}].projected.sources[{index}].serviceAccountToken"
                yield here, source["serviceAccountToken"]
