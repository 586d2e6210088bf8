"""Keys and fields that become files or variables of containers: where they come from and which are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors.kinds.core.pods.paths import unreserved
from actors.kinds.schema.fields import BOOL, INT32, INT64, QUANTITY, STRING, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldError,
    FieldErrors,
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

# Fields of a pod that fieldPath can name; files and variables support only those listed below.
_POD_FIELDS: Final = frozenset(
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
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_DECIMAL_DIVISORS: Final = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E")))
_DIVISORS: Final[tuple[str, ...]] = (
    *_DECIMAL_DIVISORS,
    *(f"1{unit}i" for unit in ("K", "M", "G", "T", "P", "E")),
)
_RESOURCE_TITLES: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def secret_rules(errors: FieldErrors, source: Object, field: str) -> None:
    if not source.get("secretName"):
        errors.add(required(f"{field}.secretName"))
    _mode_rules(errors, source, field)
    _item_list_rules(errors, source, field)


def config_map_rules(errors: FieldErrors, source: Object, field: str) -> None:
    if not source.get("name"):
        errors.add(required(f"{field}.name"))
    _mode_rules(errors, source, field)
    _item_list_rules(errors, source, field)


def downward_api_rules(errors: FieldErrors, source: Object, field: str) -> None:
    _mode_rules(errors, source, field)
    for file in source.get("items", ()):
        _file_rules(errors, file, field)


def projected_rules(errors: FieldErrors, source: Object, field: str) -> None:
    _mode_rules(errors, source, field)
    taken: set[str] = set()
    for index, projection in enumerate(source["sources"] or ()):
        _projection_rules(errors, projection, f"{field}.sources[{index}]", field, taken)


def _mode_rules(errors: FieldErrors, holder: Object, field: str, name: str = "defaultMode") -> None:
    mode = holder.get(name)
    if mode is not None and not (0 <= mode <= HIGHEST_MODE):
        errors.add(
            invalid(f"{field}.{name}", mode, "must be a number between 0 and 0777 (octal), both inclusive")
        )


def _item_list_rules(errors: FieldErrors, source: Object, field: str) -> None:
    for index, item in enumerate(source.get("items", ())):
        _item_rules(errors, item, f"{field}.items[{index}]")


def _item_rules(errors: FieldErrors, item: Object, field: str) -> None:
    for part in ("key", "path"):
        if not item[part]:
            errors.add(required(f"{field}.{part}"))
    errors.add_each(f"{field}.path", item["path"], unreserved(item["path"]))
    _mode_rules(errors, item, field, "mode")


def _file_rules(errors: FieldErrors, file: Object, field: str) -> None:
    """Errors name the volume, not the file in it, as clients expect."""
    path, reference, amount = file["path"], file.get("fieldRef"), file.get("resourceFieldRef")
    if not path:
        errors.add(required(f"{field}.path"))
    errors.add_each(f"{field}.path", path, unreserved(path))
    if reference is not None:
        field_reference_rules(errors, reference, IN_FILES, f"{field}.fieldRef")
        if amount is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.add(invalid(field, "resource", text))
    elif amount is not None:
        amount_reference_rules(errors, amount, f"{field}.resourceFieldRef", needs_container=True)
    else:
        errors.add(required(field, "one of fieldRef and resourceFieldRef is required"))
    _mode_rules(errors, file, field, "mode")


def field_reference_rules(
    errors: FieldErrors, reference: Object, supported: tuple[str, ...], field: str
) -> None:
    version, path = reference.get("apiVersion", ""), reference["fieldPath"]
    if version == "v1" and path in supported:
        return
    if not version or not path:
        errors.add(required(f"{field}.{'fieldPath' if version else 'apiVersion'}"))
        return
    owner, key = _subscript(path)
    if version != "v1":
        errors.add(_conversion_error(path, f"unsupported pod version: {version}", field))
        return
    if key is not None:
        _subscript_rules(errors, path, owner, key, field)
        return
    path = "spec.nodeName" if path == "spec.host" else path
    if path not in _POD_FIELDS:
        errors.add(_conversion_error(path, f"field label not supported: {path}", field))
    elif path not in supported:
        errors.add(not_supported(f"{field}.fieldPath", path, supported))


def _subscript(path: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` is the map and the key of one value."""
    owner, opening, key = path.removesuffix("']").partition("['")
    if not path.endswith("']") or not opening or not owner:
        return path, None
    return owner, key


def _subscript_rules(errors: FieldErrors, path: str, owner: str, key: str, field: str) -> None:
    if owner == "metadata.annotations":
        errors.add_each(field, key.lower(), qualified_name(key.lower()))
        return
    if owner == "metadata.labels":
        errors.add_each(field, key, qualified_name(key))
    else:
        errors.add(_conversion_error(path, f"field label does not support subscript: {path}", field))


def _conversion_error(path: str, why: str, field: str) -> FieldError:
    return invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {why}")


def amount_reference_rules(
    errors: FieldErrors, reference: Object, field: str, *, needs_container: bool = False
) -> None:
    name = reference["resource"]
    if needs_container and not reference.get("containerName"):
        errors.add(required(f"{field}.containerName"))
    elif not name:
        errors.add(required(f"{field}.resource"))
    elif name not in _AMOUNTS and not name.startswith(_HUGE_PAGES):
        errors.add(not_supported(f"{field}.resource", name, _AMOUNTS))
    _divisor_rules(errors, name, reference["divisor"], field)


def _divisor_rules(errors: FieldErrors, name: str, divisor: str, field: str) -> None:
    if divisor == "0":
        return
    supported, listed = _DIVISORS, ", ".join(_DIVISORS)
    what = "hugepages" if name.startswith(_HUGE_PAGES) else _RESOURCE_TITLES.get(name.partition(".")[2], "")
    if what == "cpu":
        supported, listed = ("1m", "1"), "1m and 1"
    if divisor in supported or (what != "hugepages" and name not in _AMOUNTS):
        return
    text = f"only divisor's values {listed} are supported with the {what} resource"
    errors.add(invalid(f"{field}.divisor", name, text))


def _projection_rules(errors: FieldErrors, source: Object, field: str, volume: str, taken: set[str]) -> None:
    for part in ("secret", "configMap"):
        if part in source:
            _projected_key_rules(errors, source[part], f"{field}.{part}", volume, taken)
    if "downwardAPI" in source:
        for file in source["downwardAPI"].get("items", ()):
            _file_rules(errors, file, f"{field}.downwardAPI")
            _path_conflict_rules(errors, file["path"], file["path"], volume, taken)
    if "serviceAccountToken" in source:
        _token_rules(errors, source["serviceAccountToken"], f"{field}.serviceAccountToken", volume)
    if len(source) > 1:
        errors.add(forbidden(field, "may not specify more than 1 volume type"))


def _projected_key_rules(
    errors: FieldErrors, source: Object, field: str, volume: str, taken: set[str]
) -> None:
    name = source.get("name", "")
    if not name:
        errors.add(required(f"{field}.name"))
    for index, item in enumerate(source.get("items", ())):
        _item_rules(errors, item, f"{field}.items[{index}]")
        _path_conflict_rules(errors, item["path"], name, volume, taken)


def _path_conflict_rules(errors: FieldErrors, path: str, value: str, volume: str, taken: set[str]) -> None:
    if path in taken:
        errors.add(invalid(volume, value, "conflicting duplicate paths"))
        return
    if path:
        taken.add(path)


def _token_rules(errors: FieldErrors, token: Object, field: str, volume: str) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < SHORTEST_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        errors.add(invalid(f"{field}.expirationSeconds", seconds, text))
    if seconds > LONGEST_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.add(invalid(f"{field}.expirationSeconds", seconds, text))
    if not token["path"]:
        errors.add(required(f"{volume}.path"))


def tokens_of(volumes: list[Object], field: str) -> Iterator[tuple[str, Any]]:
    """Every projected service account token with the path of its field."""
    for at, volume in enumerate(volumes):
        for index, source in enumerate(volume.get("projected", {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                here = f"{field}[{at}].projected.sources[{index}].serviceAccountToken"
                yield here, source["serviceAccountToken"]
