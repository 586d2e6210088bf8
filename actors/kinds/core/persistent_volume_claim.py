"""PersistentVolumeClaim: a request for storage, bound to a matching volume.

The spec is immutable after creation, except that bound claims may grow. `dataSource` and `dataSourceRef` mirror each
other; the older one accepts only claims and snapshots and silently drops anything else. Two fields of the status
belong to a feature: while it is off they are dropped, and while it is on a claim may shrink again to a size above
its capacity.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from actors.kinds.core.claim_spec import PERSISTENT_VOLUME_CLAIM_SPEC, claim_spec_rules
from actors.kinds.core.persistent_volume import access_modes, basic_amount_rules, complete_phase
from actors.kinds.core.resources import round_up
from actors.kinds.core.volume_cells import claim_columns
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status,
)
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.features import RECOVER_EXPANSION, RETROACTIVE_CLASS
from actors.kinds.schema.fields import QUANTITIES, STRING, STRINGS, TIME, Field, ListOf, Struct
from actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
    unchanged,
)
from actors.kinds.values.quantity import nanos_of
from actors.messages import Object
from actors.names import Names

SPEC: Final = PERSISTENT_VOLUME_CLAIM_SPEC
RESIZE_STATUSES: Final = (
    "",
    *("ControllerExpansionFailed", "ControllerExpansionInProgress"),
    *("NodeExpansionFailed", "NodeExpansionInProgress", "NodeExpansionPending"),
)

CONDITION = Struct(
    "core.v1.PersistentVolumeClaimCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastProbeTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
STATUS = Struct(
    "core.v1.PersistentVolumeClaimStatus",
    Field("phase", STRING, 1, default="Pending", enum=("Bound", "Lost", "Pending")),
    Field("accessModes", STRINGS, 2),
    Field("capacity", QUANTITIES, 3),
    Field("conditions", ListOf(CONDITION), 4, patch="merge", merge_key="type"),
    Field("allocatedResources", QUANTITIES, 5),
    Field("resizeStatus", STRING, 6, pointer=True),
)
PERSISTENT_VOLUME_CLAIM = Struct(
    "core.v1.PersistentVolumeClaim", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3)
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    rules = ClaimRules(names, features)
    snapshots = f"snapshot.{names.group('storage')}"
    return Definition(
        group="",
        version="v1",
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        names=DiscoveryNames(short_names=("pvc",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=PERSISTENT_VOLUME_CLAIM,
        set_defaults=set_defaults,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec if RECOVER_EXPANSION in features else prepare_status_without_expansion,
                validate=rules.validate_status,
            ),
        ),
        deletion=Deletion(returns_object=True),
        table=Table(claim_columns(names)),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, snapshots),
            prepare_for_update=partial(prepare_update, snapshots),
            validate_create=rules.validate,
            validate_update=rules.validate_update,
            canonicalize=complete_phase,
        ),
    )


def set_defaults(new: Object) -> None:
    """Round amounts to the precision in which they are stored."""
    spec, status = new["spec"], new["status"]
    for amounts in (*spec["resources"].values(), status.get("capacity"), status.get("allocatedResources")):
        round_up(amounts or {})


def prepare_create(snapshots: str, new: Object) -> None:
    new["status"] = {}
    _mirror_sources(new, {}, snapshots)


def prepare_update(snapshots: str, new: Object, old: Object) -> None:
    keep_status(new, old)
    _mirror_sources(new, old["spec"], snapshots)


def prepare_status_without_expansion(new: Object, old: Object) -> None:
    keep_spec(new, old)
    for part in ("allocatedResources", "resizeStatus"):
        if part not in old["status"]:
            new["status"].pop(part, None)


def _mirror_sources(new: Object, before: Object, snapshots: str) -> None:
    spec = new["spec"]
    had_one = "dataSource" in before or "dataSourceRef" in before
    if (
        not had_one
        and "dataSourceRef" not in spec
        and not _is_claim_or_snapshot(spec.get("dataSource"), snapshots)
    ):
        spec.pop("dataSource", None)
    source = spec.get("dataSource") or spec.get("dataSourceRef")
    if source is not None:
        spec.setdefault("dataSource", dict(source))
        spec.setdefault("dataSourceRef", dict(source))
        new["spec"] = SPEC.arranged(spec)


def _is_claim_or_snapshot(source: Object | None, snapshots: str) -> bool:
    """Whether the older field accepts it: another claim, or a snapshot."""
    if source is None:
        return False
    kinds = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", snapshots))
    return (source["kind"], source.get("apiGroup") or "") in kinds


class ClaimRules:
    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._class_key = names.key("storage-class", "volume.beta")
        self._features = features

    def validate(self, errors: FieldErrors, new: Object) -> None:
        claim_spec_rules(errors, new["spec"], "spec", access_modes=access_modes({}, self._features))

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        modes = access_modes(old["spec"], self._features)
        own = errors.added_by(metadata_rules, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        own += errors.added_by(claim_spec_rules, new["spec"], "spec", access_modes=modes)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        errors.add_all(own)
        self._immutable_rules(errors, new, old)

    def validate_status(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        if not new["spec"].get("accessModes"):
            errors.add(required("Spec.accessModes"))
        for name, amount in new["status"].get("capacity", {}).items():
            basic_amount_rules(errors, amount, f"status.capacity[{name}]")
        if RECOVER_EXPANSION in self._features:
            _expansion_rules(errors, new["status"])

    def _immutable_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        spec, before = dict(new["spec"]), dict(old["spec"])
        if not before.get("volumeName"):
            before["volumeName"] = spec.get("volumeName")  # the binder sets it, once
        if self._moves_class_to_spec(new, old):
            del spec["storageClassName"]
        else:
            _class_annotation_rules(errors, self._class_key, new, old)
            if self._sets_class_later(new, old):
                del spec["storageClassName"]
        size, old_size = _size(spec), _size(before)
        if new["status"].get("phase") == "Bound" and "requests" in spec["resources"]:
            spec["resources"] = _with_size(spec["resources"], old_size)
        if _comparable(spec) != _comparable(before):
            text = "spec is immutable after creation except resources.requests for bound claims"
            errors.add(forbidden("spec", text))
        self._shrink_rules(errors, size, old_size, old["status"].get("capacity", {}).get("storage", "0"))
        unchanged(errors, "volumeMode", new["spec"].get("volumeMode"), old["spec"].get("volumeMode"))

    def _shrink_rules(self, errors: FieldErrors, size: str, before: str, capacity: str) -> None:
        if nanos_of(size) >= nanos_of(before):
            return
        limit = "previous value"
        if RECOVER_EXPANSION in self._features:
            if nanos_of(size) > nanos_of(capacity):
                return
            limit = "status.capacity"
        errors.add(forbidden("spec.resources.requests.storage", f"field can not be less than {limit}"))

    def _moves_class_to_spec(self, new: Object, old: Object) -> bool:
        """Whether the class moves from the annotation of old claims to the field; the annotation may stay as it is."""
        named = old["metadata"].get("annotations", {}).get(self._class_key)
        still = new["metadata"].get("annotations", {}).get(self._class_key, named)
        unset = "storageClassName" not in old["spec"]
        return named is not None and unset and new["spec"].get("storageClassName") == named == still

    def _sets_class_later(self, new: Object, old: Object) -> bool:
        """Whether a claim that was created without a default class now gets one."""
        if RETROACTIVE_CLASS not in self._features or "storageClassName" in old["spec"]:
            return False
        name = new["spec"].get("storageClassName")
        named = old["metadata"].get("annotations", {}).get(self._class_key, name)
        return name is not None and name == named


def _expansion_rules(errors: FieldErrors, status: Object) -> None:
    resize, field = status.get("resizeStatus", ""), "status.allocatedResources"
    if resize not in RESIZE_STATUSES:
        errors.add(not_supported("status.resizeStatus", resize, RESIZE_STATUSES))
    for name, amount in status.get("allocatedResources", {}).items():
        if name != "storage":
            errors.add(not_supported(field, name, ("storage",)))
        else:
            basic_amount_rules(errors, amount, f"{field}[{name}]")


def _size(spec: Object) -> str:
    return str(spec["resources"].get("requests", {}).get("storage", "0"))


def _with_size(resources: Object, size: str) -> Object:
    return {**resources, "requests": {**resources["requests"], "storage": size}}


def _comparable(spec: Object) -> dict[str, Any]:
    """The spec with its amounts in canonical units, for comparison."""
    comparable = {part: value for part, value in spec.items() if value is not None}
    resources = spec["resources"].items()
    comparable["resources"] = {
        part: {name: nanos_of(amount) for name, amount in amounts.items()} for part, amounts in resources
    }
    return comparable


def _class_annotation_rules(errors: FieldErrors, class_key: str, new: Object, old: Object) -> None:
    after, before = (one["metadata"].get("annotations", {}).get(class_key, "") for one in (new, old))
    if after != before:
        errors.add(invalid(f"metadata.annotations.{class_key}", after, IMMUTABLE))
