"""CSIDriver: what the cluster must know to use a storage driver. Most of it is fixed once said.

`seLinuxMount` belongs to a feature, and is dropped while that is off.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.definition import Definition, Deletion, Table
from actors.kinds.declaration.meta import METADATA, metadata_change_rules
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.features import SE_LINUX_MOUNT
from actors.kinds.schema.fields import BOOL, INT64, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import name_is_subdomain
from actors.kinds.validation.field_errors import (
    FieldErrors,
    duplicate,
    invalid,
    not_supported,
    unchanged,
)
from actors.messages import Object
from actors.names import Names

GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
SHORTEST_TOKEN: Final = 10 * 60
LONGEST_TOKEN: Final = 1 << 32

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

# As the API has always spelled the paths of these, one of them wrongly.
_FIXED: Final = {
    "attachRequired": "spec.attachedRequired",
    "fsGroupPolicy": "spec.fsGroupPolicy",
    "podInfoOnMount": "spec.podInfoOnMount",
    "volumeLifecycleModes": "spec.volumeLifecycleModes",
}


def _switch(name: str, part: str, description: str, *, usual: bool) -> Column:
    return Column(name, "boolean", description, at("spec", part, missing=usual))


def _audiences(made: Object, _: int) -> str:
    requests = made["spec"].get("tokenRequests")
    return "<unset>" if requests is None else ",".join(one["audience"] for one in requests)


COLUMNS: Final = (
    NAME,
    _switch("AttachRequired", "attachRequired", "Whether volumes are attached before mounted.", usual=True),
    _switch("PodInfoOnMount", "podInfoOnMount", "Whether it is told of the pod.", usual=False),
    _switch("StorageCapacity", "storageCapacity", "Whether it tells what room there is.", usual=False),
    Column("TokenRequests", "string", "Audiences of the tokens it is given.", _audiences),
    _switch("RequiresRepublish", "requiresRepublish", "Whether it is called again and again.", usual=False),
    Column(
        "Modes",
        "string",
        "Kinds of volumes it has.",
        lambda made, _: ",".join(made["spec"].get("volumeLifecycleModes", ())) or NONE,
    ),
    AGE,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    labels_mounts = SE_LINUX_MOUNT in features
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSIDriver",
        plural="csidrivers",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=CSI_DRIVER,
        set_defaults=fill if labels_mounts else None,
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=partial(prepare_create, labels_mounts),
            prepare_for_update=partial(prepare_update, labels_mounts),
            validate_create=rules,
            validate_update=change_rules,
        ),
    )


def fill(new: Object) -> None:
    new["spec"].setdefault("seLinuxMount", False)


def prepare_create(labels_mounts: bool, new: Object) -> None:
    if not labels_mounts:
        new["spec"].pop("seLinuxMount", None)


def prepare_update(labels_mounts: bool, new: Object, old: Object) -> None:
    """The generation counts what drivers are told again, and starts with the first such change."""
    spec, before = new["spec"], old["spec"]
    if "seLinuxMount" not in before and not labels_mounts:
        spec.pop("seLinuxMount", None)
    told_again = ("tokenRequests", "requiresRepublish", "seLinuxMount")
    if any(spec.get(part) != before.get(part) for part in told_again):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    if spec["fsGroupPolicy"] not in GROUP_POLICIES:
        errors.add(not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], GROUP_POLICIES))
    _tokens(errors, spec)
    for mode in spec["volumeLifecycleModes"]:
        if mode not in LIFECYCLE_MODES:
            errors.add(not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES))


def change_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_change_rules(errors, new["metadata"], old["metadata"])
    rules(errors, new)
    for part, field in _FIXED.items():
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
    if seconds is None or SHORTEST_TOKEN <= seconds <= LONGEST_TOKEN:
        return
    limit = "less than 10 minutes" if seconds < SHORTEST_TOKEN else "larger than 2^32 seconds"
    errors.add(invalid(field, seconds, f"may not specify a duration {limit}"))
