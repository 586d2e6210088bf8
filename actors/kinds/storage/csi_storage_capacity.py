"""CSIStorageCapacity: how much capacity a CSI driver has for a storage class in a topology segment.

Served in two versions with the same fields. nodeTopology and storageClassName are immutable.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from actors.kinds.declaration.definition import Conversion, Definition, Storage, Strategy
from actors.kinds.declaration.deprecated_labels import (
    DeprecatedLabels,
    deprecated_labels,
    label_warnings,
    requirement_warnings,
)
from actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from actors.kinds.schema.fields import QUANTITY, STRING, Field, Struct
from actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldErrors,
    dns_subdomain,
    invalid,
    name_is_subdomain,
)
from actors.messages import Object
from actors.names import Names

CSI_STORAGE_CAPACITY = Struct(
    "storage.v1.CSIStorageCapacity",
    METADATA,
    Field("nodeTopology", LABEL_SELECTOR, 2, pointer=True),
    Field("storageClassName", STRING, 3, required=True, always=True),
    Field("capacity", QUANTITY, 4, pointer=True),
    Field("maximumVolumeSize", QUANTITY, 5, pointer=True),
)
BETA = Struct("storage.v1beta1.CSIStorageCapacity", *CSI_STORAGE_CAPACITY.fields)


def define(names: Names) -> Definition:
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSIStorageCapacity",
        plural="csistoragecapacities",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CSI_STORAGE_CAPACITY,
        strategy=Strategy(
            allow_unconditional_update=False,
            validate_create=create_rules,
            validate_update=update_rules,
            warnings=partial(warnings, deprecated_labels(names)),
        ),
    )


def define_beta(names: Names) -> Definition:
    stored, group = define(names), names.group("storage")
    return replace(
        stored,
        version="v1beta1",
        fields=BETA,
        storage=Storage(
            stored_as=stored.type_name, conversion=Conversion(to_storage=dict, from_storage=dict)
        ),
        deprecation_warning=f"{group}/v1beta1 CSIStorageCapacity is deprecated in v1.24+, unavailable in v1.27+; "
        f"use {group}/v1 CSIStorageCapacity",
    )


def rules(errors: FieldErrors, new: Object) -> None:
    label_selector_rules(errors, new.get("nodeTopology"), "nodeTopology")
    errors.add_each("storageClassName", new["storageClassName"], dns_subdomain(new["storageClassName"]))
    if new.get("capacity", "").startswith("-"):
        errors.add(invalid("capacity", new["capacity"], NEGATIVE))


def create_rules(errors: FieldErrors, new: Object) -> None:
    """Kubernetes reports every error of a create twice, that of metadata included."""
    own = errors.added_by(rules, new)
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    errors.add_all(own)


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for part in ("nodeTopology", "storageClassName"):
        if new.get(part) != old.get(part):
            errors.add(invalid(part, new.get(part), IMMUTABLE))


def warnings(known: DeprecatedLabels, new: Object, _: Object | None) -> list[str]:
    topology = new.get("nodeTopology", {})
    requirements = topology.get("matchExpressions", ())
    found = requirement_warnings(known, requirements, "nodeTopology.matchExpressions")
    for key in topology.get("matchLabels", ()):
        found += label_warnings(known, (key,), f"nodeTopology.matchLabels.{key}")
    return found
