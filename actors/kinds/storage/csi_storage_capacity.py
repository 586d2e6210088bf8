"""CSIStorageCapacity: how much storage of a class there is in a part of the cluster.

Served in two versions that look alike. What a driver was asked about is fixed, its answer is not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from actors.kinds.declaration.definition import Conversion, Definition, Storage
from actors.kinds.declaration.label_selector import LABEL_SELECTOR, label_selector_rules
from actors.kinds.declaration.meta import METADATA, metadata_change_rules, metadata_rules
from actors.kinds.declaration.old_labels import OldLabels, old_labels, warn_of_labels, warn_of_requirements
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.schema.fields import QUANTITY, STRING, Field, Struct
from actors.kinds.validation.checks import (
    IMMUTABLE,
    NEGATIVE,
    FieldError,
    dns_subdomain,
    each,
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
            validate_update=change_rules,
            warnings=partial(warnings, old_labels(names)),
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


def rules(new: Object) -> list[FieldError]:
    errors = label_selector_rules(new.get("nodeTopology"), "nodeTopology")
    errors += each("storageClassName", new["storageClassName"], dns_subdomain(new["storageClassName"]))
    if new.get("capacity", "").startswith("-"):
        errors.append(invalid("capacity", new["capacity"], NEGATIVE))
    return errors


def create_rules(new: Object) -> list[FieldError]:
    """Everything is told twice of a new one, metadata included."""
    judged = rules(new)
    metadata = metadata_rules(new["metadata"], namespaced=True, check_name=name_is_subdomain)
    return [*judged, *metadata, *judged]


def change_rules(new: Object, old: Object) -> list[FieldError]:
    errors = metadata_rules(new["metadata"], namespaced=True, check_name=name_is_subdomain)
    errors += rules(new)
    errors += metadata_change_rules(new["metadata"], old["metadata"])
    for part in ("nodeTopology", "storageClassName"):
        if new.get(part) != old.get(part):
            errors.append(invalid(part, new.get(part), IMMUTABLE))
    return errors


def warnings(known: OldLabels, new: Object, _: Object | None) -> list[str]:
    topology = new.get("nodeTopology", {})
    requirements = topology.get("matchExpressions", ())
    found = warn_of_requirements(known, requirements, "nodeTopology.matchExpressions")
    for key in topology.get("matchLabels", ()):
        found += warn_of_labels(known, (key,), f"nodeTopology.matchLabels.{key}")
    return found
