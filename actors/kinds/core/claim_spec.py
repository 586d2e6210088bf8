"""The spec of a claim, shared by claims and by the templates that pods and stateful sets create claims from.

`dataSource` and `dataSourceRef` mean the same; when both are set they must agree.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.core.resources import RESOURCE_REQUIREMENTS
from actors.kinds.declaration.meta import LABEL_SELECTOR, label_selector_rules
from actors.kinds.schema.fields import STRING, STRINGS, Field, Struct
from actors.kinds.validation import FieldErrors, dns_subdomain, forbidden, invalid, not_supported, required
from actors.kinds.values.quantity import nanos_of
from actors.messages import Object

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
VOLUME_MODES: Final = ("Block", "Filesystem")

TYPED_LOCAL_OBJECT_REFERENCE = Struct(
    "core.v1.TypedLocalObjectReference",
    Field("apiGroup", STRING, 1, pointer=True, always=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    atomic=True,
)
PERSISTENT_VOLUME_CLAIM_SPEC = Struct(
    "core.v1.PersistentVolumeClaimSpec",
    Field("accessModes", STRINGS, 1),
    Field("selector", LABEL_SELECTOR, 4, pointer=True),
    Field("resources", RESOURCE_REQUIREMENTS, 2),
    Field("volumeName", STRING, 3),
    Field("storageClassName", STRING, 5, pointer=True),
    Field("volumeMode", STRING, 6, pointer=True, default="Filesystem"),
    Field("dataSource", TYPED_LOCAL_OBJECT_REFERENCE, 7, pointer=True),
    Field("dataSourceRef", TYPED_LOCAL_OBJECT_REFERENCE, 8, pointer=True),
)


def claim_spec_rules(
    errors: FieldErrors, spec: Object, field: str, *, access_modes: tuple[str, ...] = ACCESS_MODES
) -> None:
    _access_mode_rules(errors, spec, field, access_modes)
    _storage_rules(errors, spec, f"{field}.resources[storage]")
    class_name, mode = spec.get("storageClassName"), spec.get("volumeMode")
    if class_name:
        errors.add_each(f"{field}.storageClassName", class_name, dns_subdomain(class_name))
    if mode is not None and mode not in VOLUME_MODES:
        errors.add(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    _source_rules(errors, spec, field)


def _access_mode_rules(errors: FieldErrors, spec: Object, field: str, supported: tuple[str, ...]) -> None:
    here, modes = f"{field}.accessModes", spec.get("accessModes", ())
    if not modes:
        errors.add(required(here, "at least 1 access mode is required"))
    label_selector_rules(errors, spec.get("selector"), f"{field}.selector")
    for mode in modes:
        if mode not in supported:
            errors.add(not_supported(here, mode, supported))
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES for mode in modes):
        errors.add(forbidden(here, "may not use ReadWriteOncePod with other access modes"))


def _storage_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    amount = spec["resources"].get("requests", {}).get("storage")
    if amount is None:
        errors.add(required(field))
    elif nanos_of(amount) <= 0:
        errors.add(invalid(field, amount, "must be greater than zero"))


def _source_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _one_source(errors, source, f"{field}.dataSource")
    if reference is not None:
        _one_source(errors, reference, f"{field}.dataSourceRef")
    if source is not None and reference is not None and source != reference:
        errors.add(invalid(field, f"{field}.dataSource", "must match dataSourceRef"))


def _one_source(errors: FieldErrors, source: Object, field: str) -> None:
    for part in ("name", "kind"):
        if not source[part]:
            errors.add(required(f"{field}.{part}"))
    if not source.get("apiGroup") and source["kind"] != "PersistentVolumeClaim":
        errors.add(invalid(field, source["kind"], ""))
