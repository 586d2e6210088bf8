"""The group of the past in discovery: what every stored resource has below its objects.

    configmaps/history    deployments.apps/blame    nodes/rollback

They are listed as subresources without their resource, so that no client takes the group for a second place where
ConfigMaps are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition

Document = dict[str, Any]

VERSION: Final = "v1"
# Subresource, kind of what is sent or returned, verb.
SUBRESOURCES: Final = (
    ("blame", "Blame", "get"),
    ("history", "History", "get"),
    ("rollback", "Rollback", "create"),
    ("undelete", "Undelete", "create"),
)


def rewindable(catalog: Catalog) -> Iterator[tuple[str, Definition]]:
    """Every stored resource as paths name it, RESOURCE[.GROUP], with the definition of its preferred version."""
    found: set[str] = set()
    for group, versions in catalog.groups().items():
        for version in versions:
            for definition in catalog.of_version(group, version):
                name = str(definition.resource)
                if definition.is_stored and definition.has_items and name not in found:
                    found.add(name)
                    yield name, definition


def resources(catalog: Catalog) -> list[Document]:
    """The entries of an APIResourceList."""
    return [
        {
            "name": f"{name}/{subresource}",
            "singularName": "",
            "namespaced": definition.namespaced,
            "kind": kind,
            "verbs": [verb],
        }
        for name, definition in rewindable(catalog)
        for subresource, kind, verb in SUBRESOURCES
    ]


def aggregated_resources(catalog: Catalog, group: str) -> list[Document]:
    """The entries of aggregated discovery. Without a responseKind, a resource has only its subresources."""
    subresources = [
        {
            "subresource": subresource,
            "responseKind": {"group": group, "version": VERSION, "kind": kind},
            "verbs": [verb],
        }
        for subresource, kind, verb in SUBRESOURCES
    ]
    return [
        {
            "resource": name,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "singularResource": "",
            "verbs": [],
            "subresources": subresources,
        }
        for name, definition in sorted(rewindable(catalog), key=lambda one: one[0])
    ]
