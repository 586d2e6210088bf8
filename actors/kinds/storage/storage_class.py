"""StorageClass: a recipe for making volumes."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, Cell, Column, at
from actors.kinds.declaration.definition import Definition, Deletion, DiscoveryNames, Table
from actors.kinds.declaration.meta import METADATA, metadata_change_rules, metadata_rules
from actors.kinds.declaration.old_labels import OldLabels, old_labels
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.schema.fields import BOOL, STRING, STRING_MAP, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    duplicate,
    each,
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

MOST_PARAMETERS: Final = 512
MOST_PARAMETER_BYTES: Final = 256 * 1024
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
                Column("Name", "string", NAME.description, _marked_name(names), format="name"),
                Column("Provisioner", "string", "Who makes the volumes.", at("provisioner")),
                Column(
                    "ReclaimPolicy",
                    "string",
                    "What becomes of a released volume.",
                    at("reclaimPolicy", missing="Delete"),
                ),
                Column(
                    "VolumeBindingMode",
                    "string",
                    "When a volume is made.",
                    at("volumeBindingMode", missing="<unset>"),
                ),
                Column(
                    "AllowVolumeExpansion",
                    "string",
                    "Claims may grow.",
                    at("allowVolumeExpansion", missing=False),
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            validate_create=rules,
            validate_update=change_rules,
            warnings=partial(warnings, old_labels(names)),
        ),
    )


def _marked_name(names: Names) -> Cell:
    """The class that claims without one get is marked."""
    marks = (
        names.key("is-default-class", prefix="storageclass"),
        names.key("is-default-class", prefix="storageclass.beta"),
    )

    def cell(made: Object, _: int) -> str:
        annotations = made["metadata"].get("annotations", {})
        marked = any(annotations.get(mark) == "true" for mark in marks)
        return str(made["metadata"]["name"]) + (" (default)" if marked else "")

    return cell


def rules(new: Object) -> list[FieldError]:
    return [
        *_provisioner(new["provisioner"]),
        *_parameters(new.get("parameters", {})),
        *_reclaim_policy(new.get("reclaimPolicy", "")),
        *_binding_mode(new.get("volumeBindingMode")),
        *_topologies(new.get("allowedTopologies", [])),
    ]


def change_rules(new: Object, old: Object) -> list[FieldError]:
    errors = metadata_rules(new["metadata"], namespaced=False, check_name=name_is_subdomain)
    errors += rules(new)
    errors += metadata_change_rules(new["metadata"], old["metadata"])
    for part in ("parameters", "provisioner", "reclaimPolicy"):
        if new.get(part) != old.get(part):
            errors.append(forbidden(part, f"updates to {part} are forbidden."))
    return errors + unchanged("volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode"))


def _provisioner(name: str) -> list[FieldError]:
    if not name:
        return [required("provisioner")]
    return each("provisioner", name.lower(), qualified_name(name.lower()))


def _parameters(parameters: dict[str, str]) -> list[FieldError]:
    if len(parameters) > MOST_PARAMETERS:
        return [too_long("parameters", MOST_PARAMETERS)]
    errors = [invalid("parameters", "", "field can not be empty.")] if "" in parameters else []
    if sum(size(key) + size(value) for key, value in parameters.items()) > MOST_PARAMETER_BYTES:
        errors.append(too_long("parameters", MOST_PARAMETER_BYTES))
    return errors


def _reclaim_policy(policy: str) -> list[FieldError]:
    if not policy or policy in RECLAIM_POLICIES:
        return []
    return [not_supported("reclaimPolicy", policy, RECLAIM_POLICIES)]


def _binding_mode(mode: str | None) -> list[FieldError]:
    if mode is None:
        return [required("volumeBindingMode")]
    return [] if mode in BINDING_MODES else [not_supported("volumeBindingMode", mode, BINDING_MODES)]


def _topologies(terms: list[Object]) -> list[FieldError]:
    """No term says what another says, and none says nothing: that is told as if each place had held such a one."""
    errors: list[FieldError] = []
    seen: list[dict[str, frozenset[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        field = f"allowedTopologies[{index}].matchLabelExpressions"
        found, wrong = _term(term, field)
        errors += wrong
        errors += [duplicate(field, "") for one in seen if one == found]
        seen.append(found)
    return errors


def _term(term: Object, field: str) -> tuple[dict[str, frozenset[str]], list[FieldError]]:
    found: dict[str, frozenset[str]] = {}
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchLabelExpressions", ())):
        here, key = f"{field}[{index}]", requirement["key"]
        errors += _requirement(requirement, here)
        if key in found:
            errors.append(duplicate(f"{here}.key", key))
        found[key] = frozenset(requirement["values"] or ())
    return found, errors


def _requirement(requirement: Object, field: str) -> list[FieldError]:
    values = requirement["values"] or []
    errors = [] if values else [required(f"{field}.values")]
    for index, value in enumerate(values):
        if value in values[:index]:
            errors.append(duplicate(f"{field}.values[{index}]", value))
    return errors + each(f"{field}.key", requirement["key"], qualified_name(requirement["key"]))


def warnings(known: OldLabels, new: Object, _: Object | None) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {known[requirement['key']]}"
        for i, term in enumerate(new.get("allowedTopologies", ()))
        for j, requirement in enumerate(term.get("matchLabelExpressions", ()))
        if requirement["key"] in known
    ]
