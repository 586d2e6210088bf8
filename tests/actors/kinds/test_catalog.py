"""The catalog: every kind by group, version and plural, with the names of either dialect."""

from __future__ import annotations

from rewound.actors.errors import Resource
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions

CORE = {"configmaps", "endpoints", "events", "namespaces", "nodes", "secrets", "serviceaccounts"}


def test_find_returns_the_kind_at_group_version_and_plural(catalog: Catalog, names: Names) -> None:
    found = catalog.find(names.group("coordination"), "v1", "leases")
    assert found is not None and found.kind == "Lease"
    assert found.api_version == f"{names.group('coordination')}/v1"
    assert found.resource == Resource(names.group("coordination"), "leases")
    assert catalog.find("", "v1", "leases") is None
    assert catalog.find("", "v2", "configmaps") is None


def test_groups_list_their_versions(catalog: Catalog, names: Names) -> None:
    groups = catalog.groups()
    assert groups[""] == ("v1",)
    for group in ("coordination", "events", "scheduling", "rbac.authorization"):
        assert groups[names.group(group)] == ("v1",)
    assert catalog.group_exists("") and not catalog.group_exists("nowhere")


def test_each_stored_type_has_one_storage_definition(catalog: Catalog, names: Names) -> None:
    stored = {definition.type_name for definition in catalog.definitions}
    assert stored >= CORE
    assert f"leases.{names.group('coordination')}" in stored
    assert f"priorityclasses.{names.group('scheduling')}" in stored
    assert catalog.storage("events").group == ""
    for definition in catalog.definitions:
        own = catalog.storage(definition.type_name)
        assert own is definition if not definition.storage.stored_as else own.storage.conversion is None


def test_definitions_have_short_names_verbs_and_subresources(kinds: Definitions) -> None:
    assert kinds["configmaps"].names.short_names == ("cm",)
    assert "deletecollection" in kinds["configmaps"].verbs
    assert "deletecollection" not in kinds["namespaces"].verbs
    assert {one.name: one.verbs for one in kinds["namespaces"].subresources} == {
        "finalize": ("update",),
        "status": ("get", "patch", "update"),
    }
    assert kinds["nodes"].has_status and not kinds["leases"].has_status
    assert kinds["nodes"].subresource("status") and kinds["nodes"].subresource("scale") is None


def test_which_kinds_allow_create_on_update(kinds: Definitions) -> None:
    allowed = {"endpoints", "events", "events.new", "leases"}
    others = {
        "configmaps",
        "secrets",
        "serviceaccounts",
        "namespaces",
        "nodes",
        "priorityclasses",
        "storageclasses",
    }
    assert all(kinds[plural].strategy.allow_create_on_update for plural in allowed)
    assert not any(kinds[plural].strategy.allow_create_on_update for plural in others)


def test_which_kinds_return_the_object_on_delete(kinds: Definitions) -> None:
    returning = {"serviceaccounts", "namespaces", "storageclasses"}
    others = {"configmaps", "secrets", "nodes", "events", "endpoints", "leases", "priorityclasses"}
    assert all(kinds[plural].deletion.returns_object for plural in returning)
    assert not any(kinds[plural].deletion.returns_object for plural in others)


def test_most_kinds_select_by_name_and_namespace_only(kinds: Definitions) -> None:
    for plural in ("configmaps", "storageclasses"):
        definition = kinds[plural]
        assert definition.selects("metadata.name") and definition.selects("metadata.namespace")
        assert not definition.selects("data.k")
        assert definition.unsupported_field_text("data.k") == (
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
