"""The catalog: every kind at its address, with the names of either dialect."""

from __future__ import annotations

from actors.errors import Resource
from actors.kinds.catalog import Catalog
from actors.names import Names
from tests.actors.kinds.declared import Declared

CORE = {"configmaps", "endpoints", "events", "namespaces", "nodes", "secrets", "serviceaccounts"}


def test_kinds_are_found_by_address(catalog: Catalog, names: Names) -> None:
    found = catalog.find(names.group("coordination"), "v1", "leases")
    assert found is not None and found.kind == "Lease"
    assert found.api_version == f"{names.group('coordination')}/v1"
    assert found.resource == Resource(names.group("coordination"), "leases")
    assert catalog.find("", "v1", "leases") is None
    assert catalog.find("", "v2", "configmaps") is None


def test_groups_and_versions(catalog: Catalog, names: Names) -> None:
    groups = catalog.groups()
    assert groups[""] == ("v1",)
    for group in ("coordination", "events", "scheduling", "rbac.authorization"):
        assert groups[names.group(group)] == ("v1",)
    assert catalog.group_exists("") and not catalog.group_exists("nowhere")


def test_objects_are_stored_under_one_name(catalog: Catalog, names: Names) -> None:
    stored = {definition.type_name for definition in catalog.definitions}
    assert stored >= CORE
    assert f"leases.{names.group('coordination')}" in stored
    assert f"priorityclasses.{names.group('scheduling')}" in stored
    assert catalog.storage("events").group == ""
    for definition in catalog.definitions:
        own = catalog.storage(definition.type_name)
        assert own is definition if not definition.storage.stored_as else own.storage.conversion is None


def test_what_discovery_tells(kinds: Declared) -> None:
    assert kinds["configmaps"].names.short_names == ("cm",)
    assert "deletecollection" in kinds["configmaps"].verbs
    assert "deletecollection" not in kinds["namespaces"].verbs
    assert {one.name: one.verbs for one in kinds["namespaces"].subresources} == {
        "finalize": ("update",),
        "status": ("get", "patch", "update"),
    }
    assert kinds["nodes"].has_status and not kinds["leases"].has_status
    assert kinds["nodes"].subresource("status") and kinds["nodes"].subresource("scale") is None


def test_kinds_that_an_update_creates(kinds: Declared) -> None:
    creating = {"endpoints", "events", "events.new", "leases"}
    others = {
        "configmaps",
        "secrets",
        "serviceaccounts",
        "namespaces",
        "nodes",
        "priorityclasses",
        "storageclasses",
    }
    assert all(kinds[plural].strategy.allow_create_on_update for plural in creating)
    assert not any(kinds[plural].strategy.allow_create_on_update for plural in others)


def test_who_answers_a_delete_with_the_object(kinds: Declared) -> None:
    answering = {"serviceaccounts", "namespaces", "storageclasses"}
    others = {"configmaps", "secrets", "nodes", "events", "endpoints", "leases", "priorityclasses"}
    assert all(kinds[plural].deletion.returns_object for plural in answering)
    assert not any(kinds[plural].deletion.returns_object for plural in others)


def test_selectors_of_plain_kinds(kinds: Declared) -> None:
    for plural in ("configmaps", "storageclasses"):
        definition = kinds[plural]
        assert definition.selects("metadata.name") and definition.selects("metadata.namespace")
        assert not definition.selects("data.k")
        assert definition.unsupported_field_text("data.k") == (
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
