"""CSIDriver: how the cluster uses a CSI driver. Most of its fields are immutable.

`seLinuxMount` belongs to the feature SELinuxMountReadWriteOncePod, and is dropped while that is disabled.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.definition import Definition, Deletion, Strategy, Table
from actors.kinds.declaration.meta import METADATA, metadata_update_rules
from actors.kinds.features import SE_LINUX_MOUNT
from actors.kinds.schema.fields import BOOL, INT64, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldErrors,
    duplicate,
    invalid,
    name_is_subdomain,
    not_supported,
    unchanged,
)
from actors.messages import Object
from actors.names import Names

GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
MIN_TOKEN_SECONDS: Final = 10 * 60
MAX_TOKEN_SECONDS: Final = 1 << 32

TOKEN_REQUEST = Struct(
    "storage.v1.TokenRequest",
    Field("audience", STRING, 1, required=True, always=True),
    Field("expirationSeconds", INT64, 2, pointer=True),
)
SPEC = Struct(
    "storage.v1.CSIDriverSpec",
    Field("attachRequired", BOOL, 1, pointer=True, default=True),
    Field("podInfoOnMount", BOOL, 2, pointer=True, default=False),
    Field("volumeLifecycleModes", STRINGS, 3, list_type="set", default=lambda: ["Persistent"]),
    Field("storageCapacity", BOOL, 4, pointer=True, default=False),
    Field("fsGroupPolicy", STRING, 5, pointer=True, default="ReadWriteOnceWithFSType"),
    Field("tokenRequests", ListOf(TOKEN_REQUEST), 6, list_type="atomic"),
    Field("requiresRepublish", BOOL, 7, pointer=True, default=False),
    Field("seLinuxMount", BOOL, 8, pointer=True),
)
CSI_DRIVER = Struct("storage.v1.CSIDriver", METADATA, Field("spec", SPEC, 2, required=True))

# Immutable fields, and their paths in errors as Kubernetes writes them (one is misspelled there).
_IMMUTABLE: Final = {
    "attachRequired": "spec.attachedRequired",
    "fsGroupPolicy": "spec.fsGroupPolicy",
    "podInfoOnMount": "spec.podInfoOnMount",
    "volumeLifecycleModes": "spec.volumeLifecycleModes",
}


def _boolean_column(name: str, part: str, description: str, *, default: bool) -> Column:
    return Column(name, "boolean", description, at("spec", part, missing=default))


def _audiences_cell(stored: Object, _: int) -> str:
    requests = stored["spec"].get("tokenRequests")
    return "<unset>" if requests is None else ",".join(one["audience"] for one in requests)


COLUMNS: Final = (
    NAME,
    _boolean_column(
        "AttachRequired",
        "attachRequired",
        "Whether volumes are attached before they are mounted.",
        default=True,
    ),
    _boolean_column(
        "PodInfoOnMount",
        "podInfoOnMount",
        "Whether mount calls contain information about the pod.",
        default=False,
    ),
    _boolean_column(
        "StorageCapacity",
        "storageCapacity",
        "Whether it publishes CSIStorageCapacity objects.",
        default=False,
    ),
    Column("TokenRequests", "string", "Audiences of the service account tokens it gets.", _audiences_cell),
    _boolean_column(
        "RequiresRepublish",
        "requiresRepublish",
        "Whether mounted volumes are republished periodically.",
        default=False,
    ),
    Column(
        "Modes",
        "string",
        "Volume lifecycle modes that it supports.",
        lambda stored, _: ",".join(stored["spec"].get("volumeLifecycleModes", ())) or NONE,
    ),
    AGE,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    se_linux_mount = SE_LINUX_MOUNT in features
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSIDriver",
        plural="csidrivers",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=CSI_DRIVER,
        set_defaults=set_defaults if se_linux_mount else None,
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=partial(prepare_create, se_linux_mount),
            prepare_for_update=partial(prepare_update, se_linux_mount),
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


def set_defaults(new: Object) -> None:
    new["spec"].setdefault("seLinuxMount", False)


def prepare_create(se_linux_mount: bool, new: Object) -> None:
    if not se_linux_mount:
        new["spec"].pop("seLinuxMount", None)


def prepare_update(se_linux_mount: bool, new: Object, old: Object) -> None:
    """The generation counts changes of three fields, and is absent until the first such change."""
    spec, before = new["spec"], old["spec"]
    if "seLinuxMount" not in before and not se_linux_mount:
        spec.pop("seLinuxMount", None)
    counted = ("tokenRequests", "requiresRepublish", "seLinuxMount")
    if any(spec.get(part) != before.get(part) for part in counted):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    if spec["fsGroupPolicy"] not in GROUP_POLICIES:
        errors.add(not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], GROUP_POLICIES))
    _tokens(errors, spec)
    for mode in spec["volumeLifecycleModes"]:
        if mode not in LIFECYCLE_MODES:
            errors.add(not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    rules(errors, new)
    for part, field in _IMMUTABLE.items():
        unchanged(errors, field, new["spec"][part], old["spec"][part])
    _tokens(errors, new["spec"])


def _tokens(errors: FieldErrors, spec: Object) -> None:
    seen: set[str] = set()
    for index, token in enumerate(spec.get("tokenRequests", ())):
        field = f"spec.tokenRequests[{index}]"
        if token["audience"] in seen:
            errors.add(duplicate(f"{field}.audience", token["audience"]))
        else:
            _lifetime(errors, token.get("expirationSeconds"), f"{field}.expirationSeconds")
        seen.add(token["audience"])


def _lifetime(errors: FieldErrors, seconds: int | None, field: str) -> None:
    if seconds is None or MIN_TOKEN_SECONDS <= seconds <= MAX_TOKEN_SECONDS:
        return
    limit = "less than 10 minutes" if seconds < MIN_TOKEN_SECONDS else "larger than 2^32 seconds"
    errors.add(invalid(field, seconds, f"may not specify a duration {limit}"))
