"""Lists, pages, selectors, tables and PartialObjectMetadata, for a built-in and a custom kind."""

from __future__ import annotations

import pytest

from tests.api.generic.kinds import META, Opened, both

TABLE = {"accept": f"application/json;as=Table;v=v1;g={META}"}
PARTIAL = {"accept": f"application/json;as=PartialObjectMetadata;v=v1;g={META}"}
PARTIAL_LIST = {"accept": f"application/json;as=PartialObjectMetadataList;v=v1;g={META}"}


@both
async def test_pages_of_a_list_are_those_of_one_version(opened: Opened) -> None:
    async with opened() as kind:
        for name in ("a", "b", "c"):
            await kind.create(name)
        first = await kind.list(limit=2)
        assert (first["apiVersion"], first["kind"]) == (kind.api_version, f"{kind.name}List")
        assert first["metadata"]["remainingItemCount"] == 1
        await kind.create("d")
        (await kind.ask("DELETE", "c")).expect(200)
        rest = await kind.list(limit=2, **{"continue": first["metadata"]["continue"]})
        assert [one["metadata"]["name"] for one in rest["items"]] == ["c"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert not rest["metadata"].get("continue")
        assert (await kind.ask("GET", **{"continue": "x"})).status == 400


@both
async def test_version_of_a_list_is_at_least_or_exactly_that_of_the_query(opened: Opened) -> None:
    async with opened() as kind:
        version = (await kind.create("a"))["metadata"]["resourceVersion"]
        await kind.create("b")
        assert await kind.names(resourceVersion=version) == ["a", "b"]
        assert await kind.names(resourceVersion=version, resourceVersionMatch="Exact") == ["a"]
        assert await kind.names(resourceVersion="0", resourceVersionMatch="NotOlderThan") == ["a", "b"]
        refused = (await kind.ask("GET", resourceVersionMatch="Exact")).expect(422)
        assert "resourceVersionMatch" in refused["message"]
        invalid = (await kind.ask("GET", resourceVersion="x")).expect(400)
        assert invalid["reason"] == "BadRequest"


@both
async def test_selectors_select_by_labels_and_names(opened: Opened) -> None:
    async with opened() as kind:
        await kind.create("a", metadata={"labels": {"color": "red"}})
        await kind.create("b", metadata={"labels": {"color": "blue"}})
        assert await kind.names(labelSelector="color=red") == ["a"]
        assert await kind.names(labelSelector="color notin (red)") == ["b"]
        assert await kind.names(fieldSelector="metadata.name=b") == ["b"]
        assert await kind.names(fieldSelector=f"metadata.namespace={kind.namespace},metadata.name!=b") == [
            "a"
        ]
        assert (await kind.ask("GET", fieldSelector="data.k=v")).status == 400
        everywhere = await kind.api.ask("GET", kind.path(everywhere=True), labelSelector="color=red")
        assert kind.namespace in [one["metadata"]["namespace"] for one in everywhere.expect(200)["items"]]


@both
@pytest.mark.parametrize(
    ("include", "shown"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "")]
)
async def test_table_has_a_row_for_each_object(opened: Opened, include: str, shown: str | None) -> None:
    async with opened() as kind:
        await kind.create("a")
        await kind.create("b")
        table = await kind.list(headers=TABLE, includeObject=include)
        assert (table["kind"], table["apiVersion"]) == ("Table", f"{META}/v1")
        columns = table["columnDefinitions"]
        assert columns[0]["name"] == "Name"
        assert columns[-1]["name"] == ("Created At" if kind.group else "Age")
        assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
        kinds = {row["object"]["kind"] if row.get("object") else None for row in table["rows"]}
        assert kinds == {kind.name if shown == "" else shown}
        assert (await kind.ask("GET", headers=TABLE, includeObject="All")).status == 400


@both
async def test_partial_metadata_has_no_other_fields(opened: Opened) -> None:
    async with opened() as kind:
        made = await kind.create("a", metadata={"labels": {"l": "x"}}, k="v")
        one = await kind.get("a", headers=PARTIAL)
        assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", f"{META}/v1")
        assert one["metadata"] == made["metadata"] and "data" not in one
        listed = await kind.list(headers=PARTIAL_LIST)
        assert listed["kind"] == "PartialObjectMetadataList"
        assert [item["metadata"] for item in listed["items"]] == [made["metadata"]]
        assert all("data" not in item for item in listed["items"])


@both
async def test_missing_object_is_named_by_its_resource(opened: Opened) -> None:
    async with opened() as kind:
        status = (await kind.ask("GET", "a")).expect(404)
        assert status["message"] == f'{kind.resource} "a" not found'
        assert {key: status["details"].get(key, "") for key in ("group", "kind", "name")} == {
            "group": kind.group,
            "kind": kind.plural,
            "name": "a",
        }
