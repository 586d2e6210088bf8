"""The kind CustomResourceDefinition: its defaults, preparation and deletion.

`actors.kinds.custom` makes definitions of kinds from its objects; `actors.controllers.custom_resources` publishes them.
"""

from __future__ import annotations

from functools import partial

from actors.kinds.apiextensions.conditions import TERMINATING, with_condition
from actors.kinds.apiextensions.fields import NAMES, STATUS, custom_resource_definition
from actors.kinds.apiextensions.rules import create_rules, status_update_rules, update_rules
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    bump_generation,
    keep_spec,
    keep_status,
)
from actors.kinds.schema.fields import zero_struct
from actors.kinds.validation import name_is_subdomain
from actors.messages import Object
from actors.names import Names

PLURAL = "customresourcedefinitions"
# What validates schemas and compiles them. Imported with the first definition, because most servers have none.
SCHEMA_MODULES = ("actors.kinds.structural.checks", "actors.kinds.structural.compile")
# On definitions that `rewound record` adds for kinds of a server that has them by itself.
ADDED_BY_RECORDER = "record.rewound.cluster.io/added"
PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


def declare(names: Names) -> tuple[Definition, ...]:
    custom_resource_definitions = Definition(
        group=names.group("apiextensions"),
        version="v1",
        kind="CustomResourceDefinition",
        plural=PLURAL,
        names=DiscoveryNames(short_names=("crd", "crds"), categories=("api-extensions",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=custom_resource_definition(names.extension_prefix),
        set_defaults=set_defaults,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec,
                validate=status_update_rules,
                reset_fields=("metadata", "spec"),
            ),
        ),
        storage=Storage(announced_version="v1beta1"),
        deletion=Deletion(
            returns_object=True,
            promises_object=False,
            uid_is_precondition=True,
            only_known_finalizers=False,
            mark_deleted=partial(mark_deleted, cleanup_finalizer(names)),
        ),
        strategy=Strategy(
            allow_unconditional_update=False,
            validates_metadata=True,
            prepare_for_create=prepare_create,
            prepare_for_update=prepare_update,
            validate_create=partial(create_rules, names),
            validate_update=partial(update_rules, names),
        ),
    )
    return (custom_resource_definitions,)


def definition_type(names: Names) -> str:
    """What the journal calls CustomResourceDefinitions."""
    return f"{PLURAL}.{names.group('apiextensions')}"


def cleanup_finalizer(names: Names) -> str:
    """The finalizer that keeps a definition until all its objects are deleted."""
    return f"customresourcecleanup.{names.group('apiextensions')}"


def set_defaults(new: Object) -> None:
    spec, status = new["spec"], new["status"]
    names = spec["names"]
    if not names.get("singular") and names["kind"]:
        names["singular"] = names["kind"].lower()
    if not names.get("listKind") and names["kind"]:
        names["listKind"] = f"{names['kind']}List"
    spec["names"] = NAMES.arranged(names)
    if "conversion" not in spec:
        spec["conversion"] = {"strategy": "None"}
        if "preserveUnknownFields" in spec:  # the last field, in declared order
            spec["preserveUnknownFields"] = spec.pop("preserveUnknownFields")
    if not status["storedVersions"]:
        status["storedVersions"] = _storage_versions(spec) or None


def prepare_create(new: Object) -> None:
    new["status"] = {
        **zero_struct(STATUS, defaults=False),
        "storedVersions": _storage_versions(new["spec"]) or None,
    }
    new["metadata"]["generation"] = 1


def prepare_update(new: Object, old: Object) -> None:
    keep_status(new, old)
    bump_generation(new, old)
    stored = new["status"]["storedVersions"] or []
    missing = [name for name in _storage_versions(new["spec"]) if name not in stored]
    if missing:
        new["status"] = {**new["status"], "storedVersions": [*stored, *missing]}


def mark_deleted(finalizer: str, deleted: Object) -> None:
    """Keep the definition until its objects are deleted, and say so; its generation stays."""
    metadata, status = deleted["metadata"], deleted["status"]
    metadata["generation"] -= 1
    metadata.pop("deletionGracePeriodSeconds")
    if finalizer not in metadata.get("finalizers", ()):
        metadata["finalizers"] = [*metadata.get("finalizers", ()), finalizer]
    now = metadata["deletionTimestamp"]
    conditions = with_condition(
        status["conditions"], TERMINATING, "True", "InstanceDeletionPending", PENDING, now
    )
    deleted["status"] = {**status, "conditions": conditions}


def _storage_versions(spec: Object) -> list[str]:
    """The name of the first version that is marked as the storage version; empty without one."""
    return [version["name"] for version in spec["versions"] or () if version["storage"]][:1]
