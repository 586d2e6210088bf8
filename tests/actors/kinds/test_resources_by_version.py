"""The resources of each version are those of Kubernetes: kinds, scopes, verbs and subresources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import VERSIONS, exists_in

TABLE = Path(__file__).parent / "resources_by_version.txt"
ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update")
WORDS = {"all": ALL, "status": ("get", "patch", "update"), "connect": ("connect",)}
# Groups in which nothing is missing, and nothing served that Kubernetes does not serve.
BUILT = (
    "apps",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "internal.apiserver.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storagemigration.k8s.io",
)


class Resource(NamedTuple):
    group_version: str
    name: str
    kind: str
    scope: str
    verbs: tuple[str, ...]


@cache
def table() -> tuple[tuple[Resource, str, str], ...]:
    rows = []
    group_version = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("  "):
            name, kind, scope, word, versions = line.split()
            verbs = WORDS.get(word) or tuple(word.split(","))
            since, _, until = versions.partition("-")
            rows.append((Resource(group_version, name, kind, scope, verbs), since, until))
        elif not line.startswith("#"):
            group_version = line
    return tuple(rows)


def served(version: str) -> Iterator[Resource]:
    catalog = built_in(
        KUBERNETES, choose_release(version, "AllAlpha=true,AllBeta=true"), Enablement(every=True)
    )
    for definition in catalog.definitions:
        yield from resources(definition)


def resources(definition: Definition) -> Iterator[Resource]:
    scope = "namespaced" if definition.namespaced else "cluster"
    version = definition.api_version
    yield Resource(version, definition.plural, definition.kind, scope, without_watch(definition.verbs))
    for one in definition.subresources:
        name, kind = f"{definition.plural}/{one.name}", one.kind or definition.kind
        connects = one.forwarded and one.options is not None and one.name != "log"
        yield Resource(version, name, kind, scope, ("connect",) if connects else without_watch(one.verbs))


def without_watch(verbs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(verb for verb in verbs if verb != "watch"))


@pytest.mark.parametrize("version", VERSIONS)
def test_served_resources_are_those_of_the_version(version: str) -> None:
    expected = {row for row, since, until in table() if exists_in(version, since, until)}
    found = set(served(version))
    assert not [one for one in found - expected if is_built(one)]
    assert not [one for one in expected - found if is_built(one)]


def is_built(resource: Resource) -> bool:
    return resource.group_version.partition("/")[0] in BUILT
