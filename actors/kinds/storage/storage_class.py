"""StorageClass: parameters for the dynamic provisioning of volumes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, Cell, Column, at
from actors.kinds.declaration.definition import Definition, Deletion, DiscoveryNames, Strategy, Table
from actors.kinds.declaration.deprecated_labels import DeprecatedLabels, deprecated_labels
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.schema.fields import BOOL, STRING, STRING_MAP, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldErrors,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    size,
    too_long,
    unchanged,
)
from actors.messages import Object
from actors.names import Names

MAX_PARAMETERS: Final = 512
MAX_PARAMETER_BYTES: Final = 256 * 1024
RECLAIM_POLICIES: Final = ("Delete", "Retain")
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")

REQUIREMENT = Struct(
    "core.v1.TopologySelectorLabelRequirement",
    Field("key", STRING, 1, required=True, always=True),
    Field("values", STRINGS, 2, required=True, always=True),
)
TERM = Struct(
    "core.v1.TopologySelectorTerm", Field("matchLabelExpressions", ListOf(REQUIREMENT), 1), atomic=True
)
STORAGE_CLASS = Struct(
    "storage.v1.StorageClass",
    METADATA,
    Field("provisioner", STRING, 2, required=True, always=True),
    Field("parameters", STRING_MAP, 3),
    Field("reclaimPolicy", STRING, 4, pointer=True, default="Delete"),
    Field("mountOptions", STRINGS, 5),
    Field("allowVolumeExpansion", BOOL, 6, pointer=True),
    Field("volumeBindingMode", STRING, 7, pointer=True, default="Immediate"),
    Field("allowedTopologies", ListOf(TERM), 8, list_type="atomic"),
)


def define(names: Names) -> Definition:
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="StorageClass",
        plural="storageclasses",
        names=DiscoveryNames(short_names=("sc",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=STORAGE_CLASS,
        deletion=Deletion(returns_object=True),
        table=Table(
            (
                Column("Name", "string", NAME.description, _name_cell(names), format="name"),
                Column("Provisioner", "string", "Provisioner of the volumes.", at("provisioner")),
                Column(
                    "ReclaimPolicy",
                    "string",
                    "What happens to a released volume.",
                    at("reclaimPolicy", missing="Delete"),
                ),
                Column(
                    "VolumeBindingMode",
                    "string",
                    "When volumes are bound and provisioned.",
                    at("volumeBindingMode", missing="<unset>"),
                ),
                Column(
                    "AllowVolumeExpansion",
                    "string",
                    "Whether claims can be expanded.",
                    at("allowVolumeExpansion", missing=False),
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            validate_create=rules,
            validate_update=update_rules,
            warnings=partial(warnings, deprecated_labels(names)),
        ),
    )


def _name_cell(names: Names) -> Cell:
    """The name, with " (default)" for the default class."""
    default_annotations = (
        names.key("is-default-class", prefix="storageclass"),
        names.key("is-default-class", prefix="storageclass.beta"),
    )

    def cell(stored: Object, _: int) -> str:
        annotations = stored["metadata"].get("annotations", {})
        is_default = any(annotations.get(key) == "true" for key in default_annotations)
        return str(stored["metadata"]["name"]) + (" (default)" if is_default else "")

    return cell


def rules(errors: FieldErrors, new: Object) -> None:
    _provisioner(errors, new["provisioner"])
    _parameters(errors, new.get("parameters", {}))
    _reclaim_policy(errors, new.get("reclaimPolicy", ""))
    _binding_mode(errors, new.get("volumeBindingMode"))
    _topologies(errors, new.get("allowedTopologies", []))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for part in ("parameters", "provisioner", "reclaimPolicy"):
        if new.get(part) != old.get(part):
            errors.add(forbidden(part, f"updates to {part} are forbidden."))
    unchanged(errors, "volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode"))


def _provisioner(errors: FieldErrors, name: str) -> None:
    if not name:
        errors.add(required("provisioner"))
    else:
        errors.add_each("provisioner", name.lower(), qualified_name(name.lower()))


def _parameters(errors: FieldErrors, parameters: dict[str, str]) -> None:
    if len(parameters) > MAX_PARAMETERS:
        errors.add(too_long("parameters", MAX_PARAMETERS))
        return
    if "" in parameters:
        errors.add(invalid("parameters", "", "field can not be empty."))
    if sum(size(key) + size(value) for key, value in parameters.items()) > MAX_PARAMETER_BYTES:
        errors.add(too_long("parameters", MAX_PARAMETER_BYTES))


def _reclaim_policy(errors: FieldErrors, policy: str) -> None:
    if policy and policy not in RECLAIM_POLICIES:
        errors.add(not_supported("reclaimPolicy", policy, RECLAIM_POLICIES))


def _binding_mode(errors: FieldErrors, mode: str | None) -> None:
    if mode is None:
        errors.add(required("volumeBindingMode"))
    elif mode not in BINDING_MODES:
        errors.add(not_supported("volumeBindingMode", mode, BINDING_MODES))


def _topologies(errors: FieldErrors, terms: list[Object]) -> None:
    """Terms must differ from each other. As in Kubernetes, an empty term has one duplicate error for each term."""
    seen = Counter({frozenset[tuple[str, frozenset[str]]](): len(terms)})
    for index, term in enumerate(terms):
        field = f"allowedTopologies[{index}].matchLabelExpressions"
        found = frozenset(_term(errors, term, field).items())
        for _ in range(seen[found]):
            errors.add(duplicate(field, ""))
        seen[found] += 1


def _term(errors: FieldErrors, term: Object, field: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for index, requirement in enumerate(term.get("matchLabelExpressions", ())):
        here, key = f"{field}[{index}]", requirement["key"]
        _requirement(errors, requirement, here)
        if key in found:
            errors.add(duplicate(f"{here}.key", key))
        found[key] = frozenset(requirement["values"] or ())
    return found


def _requirement(errors: FieldErrors, requirement: Object, field: str) -> None:
    values = requirement["values"] or []
    if not values:
        errors.add(required(f"{field}.values"))
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.add(duplicate(f"{field}.values[{index}]", value))
        seen.add(value)
    errors.add_each(f"{field}.key", requirement["key"], qualified_name(requirement["key"]))


def warnings(known: DeprecatedLabels, new: Object, _: Object | None) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {known[requirement['key']]}"
        for i, term in enumerate(new.get("allowedTopologies", ()))
        for j, requirement in enumerate(term.get("matchLabelExpressions", ()))
        if requirement["key"] in known
    ]
