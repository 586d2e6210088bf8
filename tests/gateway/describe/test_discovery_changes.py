"""After kinds were added and removed, discovery equals that of a catalog that only ever had the remaining kinds."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Conversion, Definition, DiscoveryNames, Storage
from rewound.actors.kinds.registry import Registry
from tests.actors.kinds.crontabs import crontabs
from tests.gateway.api import Api
from tests.gateway.registering import registering

GROUPS, PLURALS = ("a.example.io", "b.example.io"), ("boats", "hats", "mats")
VERSIONS = ("v1", "v2", "v1beta1", "v0")
TYPES = [f"{plural}.{group}" for group in GROUPS for plural in PLURALS]

versions = some.lists(some.sampled_from(VERSIONS), min_size=1, unique=True)
changes = some.lists(some.tuples(some.sampled_from(TYPES), some.none() | versions), max_size=12)


def definitions_of(type_name: str, versions: list[str]) -> list[Definition]:
    """Each with separate strings, as decoded documents have."""
    plural, _, group = type_name.partition(".")
    views = Storage(stored_as=type_name, conversion=Conversion(lambda one: one, lambda one: one))
    return [
        replace(
            crontabs(),
            group=group,
            version="".join(list(version)),
            kind=plural.capitalize(),
            plural=plural,
            names=DiscoveryNames(short_names=(plural[:1],)),
            storage=views if number else Storage(),
        )
        for number, version in enumerate(versions)
    ]


def found(catalog: Catalog) -> dict[str, object]:
    """What clients find; kinds that were declared again may be at another place in their group version."""
    groups = catalog.groups()
    resources = [catalog.of_version(group, version) for group in groups for version in groups[group]]
    return {
        "groups": groups,
        "resources": [{(one.api_version, one.plural) for one in found} for found in resources],
        "served": {(one.api_version, one.plural) for one in catalog.definitions},
        "short names": {
            plural: {(one.api_version, one.plural) for one in catalog.by_short_name(plural[:1])}
            for plural in PLURALS
        },
        "kinds": {
            (f"{group}/{version}", plural)
            for group in GROUPS
            for version in VERSIONS
            for plural in PLURALS
            if catalog.of_kind(f"{group}/{version}", plural.capitalize()) is not None
        },
    }


@given(changes=changes)
def test_catalog_after_changes_equals_one_of_what_remains(
    changes: list[tuple[str, list[str] | None]],
) -> None:
    changed, rest = Catalog(), dict[str, list[str]]()
    for type_name, versions in changes:
        if versions is not None:
            changed = changed.adding(definitions_of(type_name, versions))
            rest.pop(type_name, None)
            rest[type_name] = versions
        elif type_name in rest:
            changed = changed.without(type_name)
            del rest[type_name]
    fresh = Catalog()
    for type_name, versions in rest.items():
        fresh = fresh.adding(definitions_of(type_name, versions))
    assert found(changed) == found(fresh)


async def discovery(api: Api) -> dict[str, object]:
    documents: dict[str, object] = {}
    for group in (await api.ask("GET", "/apis")).expect(200)["groups"]:
        for version in group["versions"]:
            path = f"/apis/{version['groupVersion']}"
            documents[path] = (await api.ask("GET", path)).expect(200)
        documents[group["name"]] = group
    return documents


async def register(registry: Registry, type_name: str, *versions: str) -> None:
    await registry.register(*definitions_of(type_name, list(versions)))


async def test_group_leaves_discovery_when_its_kinds_go_in_the_other_order() -> None:
    async with registering() as (api, registry):
        before = await discovery(api)
        await register(registry, "boats.a.example.io", "v1", "v2")
        await register(registry, "hats.a.example.io", "v1", "v2")
        await register(registry, "hats.b.example.io", "v1")
        registry.remove("boats.a.example.io")
        registry.remove("hats.a.example.io")
        after = await discovery(api)
        assert after.keys() - before.keys() == {"b.example.io", "/apis/b.example.io/v1"}
        registry.remove("hats.b.example.io")
        assert await discovery(api) == before
