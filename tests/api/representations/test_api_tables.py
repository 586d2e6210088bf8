"""Tables and PartialObjectMetadata of objects and lists."""

import pytest

from tests.gateway.api import Api, served
from tests.gateway.shared_server import shared

META = "meta.cluster.io"
TABLE = f"application/json;as=Table;v=v1;g={META}"
PARTIAL = f"application/json;as=PartialObjectMetadata;v=v1;g={META}"
PARTIAL_LIST = f"application/json;as=PartialObjectMetadataList;v=v1;g={META}"
MAPS = "/api/v1/namespaces/default/configmaps"


async def get(api: Api, path: str, accept: str):
    return await api.ask("GET", path, headers={"Accept": accept})


async def make(api: Api, *names: str) -> None:
    for name in names:
        body = {"metadata": {"name": name, "labels": {"l": name}}, "data": {"k": "v"}}
        (await api.ask("POST", MAPS, body)).expect(201)


async def test_table_of_a_list_has_the_list_metadata():
    async with served() as api:
        await make(api, "a", "b", "c")
        table = (await get(api, f"{MAPS}?limit=2", TABLE)).expect(200)
        assert (table["kind"], table["apiVersion"]) == ("Table", f"{META}/v1")
        assert table["metadata"]["remainingItemCount"] == 1
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert all(column["description"] for column in table["columnDefinitions"])
        assert [row["cells"][:2] for row in table["rows"]] == [["a", 1], ["b", 1]]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        token = table["metadata"]["continue"]
        rest = (await get(api, f"{MAPS}?limit=2&continue={token}", TABLE)).expect(200)
        assert [row["cells"][0] for row in rest["rows"]] == ["c"]


async def test_object_is_a_table_of_one_row():
    async with served() as api:
        await make(api, "a")
        table = (await get(api, f"{MAPS}/a", TABLE)).expect(200)
        plain = (await get(api, f"{MAPS}/a", "application/json")).expect(200)
        assert table["metadata"] == {"resourceVersion": plain["metadata"]["resourceVersion"]}
        assert len(table["rows"]) == 1


async def test_table_of_a_dry_run_has_no_version():
    async with served() as api:
        made = await api.ask(
            "POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}}, headers={"Accept": TABLE}
        )
        assert made.expect(201)["metadata"] == {}


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata")]
)
async def test_include_object_selects_the_object_of_a_row(include, kind):
    async with served() as api:
        await make(api, "a")
        [row] = (await get(api, f"{MAPS}?includeObject={include}", TABLE)).expect(200)["rows"]
        assert row["object"]["kind"] == kind
        assert ("data" in row["object"]) is (include == "Object")
        [row] = (await get(api, f"{MAPS}?includeObject=None", TABLE)).expect(200)["rows"]
        assert row["object"] is None


async def test_unknown_include_object_is_refused_only_for_tables():
    async with shared() as api:
        refused = (await get(api, f"{MAPS}?includeObject=All", TABLE)).expect(400)
        assert "includeObject" in refused["message"]
        (await get(api, f"{MAPS}?includeObject=All", "application/json")).expect(200)


@pytest.mark.parametrize(("accept", "kind"), [(TABLE, "Table"), (PARTIAL, "PartialObjectMetadata")])
async def test_delete_that_returns_the_object_may_be_a_table(accept: str, kind: str):
    async with served() as api:
        path = "/api/v1/namespaces/default/serviceaccounts"
        (await api.ask("POST", path, {"metadata": {"name": "a"}})).expect(201)
        gone = (await api.ask("DELETE", f"{path}/a", headers={"Accept": accept})).expect(200)
        assert (gone["kind"], gone["apiVersion"]) == (kind, f"{META}/v1")


async def test_writes_return_a_table_and_deletes_a_status():
    async with served() as api:
        body = {"metadata": {"name": "a"}}
        made = await api.ask("POST", MAPS, body, headers={"Accept": TABLE})
        assert made.expect(201)["kind"] == "Table"
        put = await api.ask("PUT", f"{MAPS}/a", {**body, "data": {"x": "y"}}, headers={"Accept": TABLE})
        assert put.expect(200)["rows"][0]["cells"][1] == 1
        gone = await api.ask("DELETE", f"{MAPS}/a", headers={"Accept": TABLE})
        assert gone.expect(200)["kind"] == "Status"


async def test_errors_are_a_status():
    async with shared() as api:
        assert (await get(api, f"{MAPS}/nope", TABLE)).expect(404)["kind"] == "Status"


async def test_partial_metadata_of_an_object_and_of_a_list():
    async with served() as api:
        await make(api, "a")
        one = (await get(api, f"{MAPS}/a", PARTIAL)).expect(200)
        assert one.keys() == {"kind", "apiVersion", "metadata"}
        assert (one["kind"], one["metadata"]["labels"]) == ("PartialObjectMetadata", {"l": "a"})
        listed = (await get(api, MAPS, PARTIAL_LIST)).expect(200)
        assert (listed["kind"], listed["metadata"].keys()) == (
            "PartialObjectMetadataList",
            {"resourceVersion"},
        )
        assert listed["items"] == [one]


async def test_partial_metadata_of_a_scale_has_only_its_own_fields():
    async with served() as api:
        path = "/apis/apps/v1/namespaces/default/deployments"
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        (await api.ask("POST", path, {"metadata": {"name": "d"}, "spec": spec})).expect(201)
        one = (await get(api, f"{path}/d/scale", PARTIAL)).expect(200)
        own = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
        assert one["metadata"].keys() == own
        [row] = (await get(api, f"{path}/d/scale", TABLE)).expect(200)["rows"]
        assert row["object"] == one


async def test_as_kind_must_fit_the_response():
    async with served() as api:
        await make(api, "a")
        (await get(api, MAPS, PARTIAL)).expect(406)
        (await get(api, f"{MAPS}/a", PARTIAL_LIST)).expect(406)
        (await get(api, MAPS, TABLE.replace("v1", "v9"))).expect(406)
        (await get(api, MAPS, TABLE.replace(META, "other.io"))).expect(406)
        fallen_back = (await get(api, MAPS, f"{PARTIAL},application/json")).expect(200)
        assert fallen_back["kind"] == "ConfigMapList"
        beta = (await get(api, f"{MAPS}/a", PARTIAL.replace("v=v1", "v=v1beta1"))).expect(200)
        assert beta["apiVersion"] == f"{META}/v1beta1"


async def test_group_of_tables_depends_on_the_dialect():
    async with served(dialect="kubernetes") as api:
        await make(api, "a")
        (await get(api, MAPS, TABLE)).expect(406)
        table = (await get(api, MAPS, TABLE.replace(META, "meta.k8s.io"))).expect(200)
        assert table["apiVersion"] == "meta.k8s.io/v1"
