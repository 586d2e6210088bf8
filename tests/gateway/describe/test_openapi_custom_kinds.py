"""OpenAPI 3.0 documents of custom kinds are joined from fragments: the same bytes as when written as a whole."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.custom import definitions_of
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import NAMES
from rewound.gateway.describe.openapi.custom import CustomDocuments, FragmentCache
from rewound.gateway.describe.openapi.documents import Documents
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.sections import sections
from tests.api.custom.kinds import DEFINITIONS, GROUP, MERGE, define, definition, version
from tests.gateway.api import served
from tests.gateway.describe.reader import CATALOGS, VERBS

SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
PREFIXES = {"cluster": "x-cluster-", "kubernetes": "x-kubernetes-"}


def stored(declared: dict[str, Any]) -> dict[str, Any]:
    """A definition as it is stored once it is established."""
    names = declared["spec"]["names"]
    accepted = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List", **names}
    conditions = [{"type": one, "status": "True"} for one in ("NamesAccepted", "Established")]
    return {
        **declared,
        "metadata": {**declared["metadata"], "uid": "u", "generation": 1},
        "spec": {**declared["spec"], "conversion": {"strategy": "None"}},
        "status": {"acceptedNames": accepted, "conditions": conditions, "storedVersions": ["v1"]},
    }


def definitions(dialect: str, *declared: dict[str, Any]) -> Iterable[Definition]:
    for one in map(stored, declared):
        yield from definitions_of(one, orjson.dumps(one), 1, NAMES[dialect]).served


def shapes(dialect: str) -> list[dict[str, Any]]:
    prefix = PREFIXES[dialect]
    nested = {
        "type": "object",
        "description": 'An "object" with ü.',
        "example": {"a": 1},
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
            "open": {"type": "object", prefix + "preserve-unknown-fields": True},
            "inner": {"type": "object", prefix + "embedded-resource": True, "required": ["kind"]},
            "either": {prefix + "int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "one": {"type": "string", "enum": ["a", "b"], "externalDocs": {"url": "x"}, "nullable": True},
        },
    }
    status, scale = {"status": {}}, {"status": {}, "scale": SCALE}
    return [
        definition(),
        definition(version(spec=nested, subresources=status), plural="nests", kind="Nest"),
        definition(version(subresources=scale), plural="scales", kind="ScaledCondition"),
        definition(version(deprecated=True), plural="olds", kind="Old", scope="Cluster"),
        definition(version(), plural="odds", kind="OddList", listKind="Odds"),
        definition(
            version(subresources=scale),
            version("v1beta1", storage=False, deprecated=True, spec=nested),
            plural="doubles",
            kind="Double",
        ),
    ]


async def joined(documents: CustomDocuments, catalog: Catalog, dialect: str) -> dict[str, bytes]:
    found = {}
    for section in sections(catalog, VERBS, Naming(NAMES[dialect], catalog.exists)):
        if documents.can_describe(section):
            fragments = await documents.fragments(section)
            found[section.name] = b"".join(documents.version_3(fragments))
    return found


@pytest.mark.parametrize("dialect", NAMES)
async def test_joined_documents_are_those_that_the_writer_makes(dialect: str) -> None:
    names, built_in = NAMES[dialect], CATALOGS[dialect]
    catalog = built_in.adding(definitions(dialect, *shapes(dialect)))
    whole = Documents(catalog, names, "v1.25")
    expected = {
        one.name: one for one in sections(catalog, VERBS, Naming(names, catalog.exists)) if GROUP in one.name
    }
    found = await joined(CustomDocuments(built_in, names, VERBS, "v1.25"), catalog, dialect)
    assert found.keys() == {f"apis/{GROUP}/v1", f"apis/{GROUP}/v1beta1"}
    for name, body in found.items():
        assert body == b"".join(whole.version_3(expected[name]))


async def test_a_change_of_one_kind_makes_its_fragment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    keep = FragmentCache.keep

    def recorded(cache: FragmentCache, one: Any, fragment: Any) -> Any:
        made.append(one.plural)
        return keep(cache, one, fragment)

    monkeypatch.setattr(FragmentCache, "keep", recorded)
    path = f"/openapi/v3/apis/{GROUP}/v1"
    async with served() as api:
        await define(api, definition())
        await define(api, definition(plural="gears", kind="Gear"))
        before = await api.ask("GET", path)
        assert sorted(made) == ["gears", "widgets"]
        made.clear()
        changed = {"spec": {"versions": [version(spec={"type": "object", "description": "New."})]}}
        (await api.ask("PATCH", f"{DEFINITIONS}/widgets.{GROUP}", changed, headers=MERGE)).expect(200)
        after = await api.ask("GET", path)
        assert made == ["widgets"]
        assert b"New." in after.body
        assert before.headers["etag"] != after.headers["etag"]


async def test_etags_follow_the_content_and_are_those_of_the_index() -> None:
    path, name = f"/openapi/v3/apis/{GROUP}/v1", f"apis/{GROUP}/v1"
    async with served() as api:
        await define(api, definition())

        async def etag() -> str:
            listed = (await api.ask("GET", "/openapi/v3")).expect(200)["paths"][name]["serverRelativeURL"]
            found: str = (await api.ask("GET", path)).headers["etag"]
            assert listed == f"{path}?hash={found[1:-1]}"
            return found

        async def patch(changed: dict[str, Any]) -> str:
            (await api.ask("PATCH", f"{DEFINITIONS}/widgets.{GROUP}", changed, headers=MERGE)).expect(200)
            return await etag()

        first = await etag()
        assert await patch({"metadata": {"labels": {"a": "b"}}}) == first
        second = await patch({"spec": {"versions": [version(spec={"type": "object"})]}})
        third = await patch(
            {"spec": {"versions": [version(spec={"type": "object"}, subresources={"status": {}})]}}
        )
        assert len({first, second, third}) == 3
        assert await patch({"spec": {"versions": [version()]}}) == first


async def test_long_documents_are_compressed_for_clients_that_accept_it() -> None:
    path = f"/openapi/v3/apis/{GROUP}/v1"
    async with served() as api:
        await define(api, definition())
        short = await api.ask("GET", path, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in short.headers
        for number in range(8):
            await define(api, definition(plural=f"gears{number}", kind=f"Gear{number}"))
        plain = await api.ask("GET", path, headers={"accept-encoding": "identity"})
        for _ in range(2):
            zipped = await api.ask("GET", path, headers={"accept-encoding": "gzip"})
            assert zipped.headers["content-encoding"] == "gzip"
            body = gzip.decompress(zipped.body) if zipped.body[:2] == b"\x1f\x8b" else zipped.body
            assert body == plain.body


def test_fragments_are_cached_up_to_a_bound() -> None:
    from rewound.gateway.describe.openapi.custom import Fragment

    kinds: list[Any] = list(definitions("cluster", *shapes("cluster")))
    cache = FragmentCache(cached_bytes=100)
    template: Any = None
    for one in kinds:
        cache.keep(one, Fragment(template, template, {}, 40))
    assert [one for one in kinds if cache.find(one) is not None] == kinds[-2:]


async def test_documents_have_what_kubernetes_describes_of_custom_kinds() -> None:
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3},
            "port": {"x-cluster-int-or-string": True},
            "both": {"x-cluster-int-or-string": True, "anyOf": [{"pattern": "^a"}]},
        },
    }
    async with served() as api:
        await define(api, definition(version(spec=spec, subresources={"status": {}, "scale": SCALE})))
        older = (await api.ask("GET", "/openapi/v2")).expect(200)
        index = (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]
        newer = (await api.ask("GET", f"/openapi/v3/apis/{GROUP}/v1")).expect(200)
    collection = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets"
    paths = {
        *(f"/apis/{GROUP}/v1/widgets", collection, f"{collection}/{{name}}"),
        *(f"{collection}/{{name}}/status", f"{collection}/{{name}}/scale"),
    }
    assert {path for path in older["paths"] if GROUP in path} == newer["paths"].keys() == paths
    assert [name for name in index if GROUP in name] == [f"apis/{GROUP}/v1"]
    for path in paths:
        for method, one in older["paths"][path].items():
            if method != "parameters":
                assert one["produces"] == ["application/json", "application/yaml"]
                assert method == "patch" or one["consumes"] == one["produces"]
                assert one["x-cluster-group-version-kind"]["kind"] == "Widget"
    for document in (older, newer):
        deletion = {one["name"] for one in document["paths"][collection]["delete"]["parameters"]}
        assert {"allowWatchBookmarks", "watch", "dryRun", "propagationPolicy", "labelSelector"} <= deletion
    title = "com.example.v1.Widget"
    fields = older["definitions"][title]["properties"]["spec"]["properties"]
    assert fields["size"] == {"type": "integer"}
    fields = newer["components"]["schemas"][title]["properties"]["spec"]["properties"]
    either = [{"type": "integer"}, {"type": "string"}]
    assert fields["size"] == {"type": "integer", "default": 3}
    assert fields["port"]["anyOf"] == either
    assert fields["both"]["allOf"] == [{"anyOf": either}] and fields["both"]["anyOf"] == [{"pattern": "^a"}]
    for name in (title, f"{title}List"):
        assert "default" not in newer["components"]["schemas"][name]["properties"]["metadata"]
