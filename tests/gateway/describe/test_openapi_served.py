"""/openapi/v2 and /openapi/v3 over HTTP: media types, ETags, caching, and access."""

from __future__ import annotations

import pytest

from rewound.gateway.describe.openapi.handler import OLD_PROTOBUF, PROTOBUF
from tests.cases import cases
from tests.gateway.api import ALICE, Api, served
from tests.gateway.shared_server import shared

DIALECTS = pytest.mark.parametrize(
    ("dialect", "prefix", "root"),
    [("cluster", "x-cluster-", "io.cluster"), ("kubernetes", "x-kubernetes-", "io.k8s")],
)


@DIALECTS
async def test_version_2_describes_the_whole_api(dialect: str, prefix: str, root: str) -> None:
    async with served(dialect=dialect) as api:
        document = (await api.ask("GET", "/openapi/v2")).expect(200)
        assert document["swagger"] == "2.0"
        pod = document["definitions"][f"{root}.api.core.v1.Pod"]
        assert pod[f"{prefix}group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
        listed = document["paths"]["/api/v1/namespaces/{namespace}/pods"]["get"]
        assert listed["operationId"] == "listCoreV1NamespacedPod"
        assert listed[f"{prefix}action"] == "list"


@DIALECTS
async def test_version_3_has_a_document_for_each_section(dialect: str, prefix: str, root: str) -> None:
    async with served(dialect=dialect) as api:
        index = (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]
        assert {"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} <= index.keys()
        for name, where in index.items():
            url = where["serverRelativeURL"]
            assert url.startswith(f"/openapi/v3/{name}?hash=")
            document = (await api.ask("GET", url)).expect(200)
            assert document["openapi"].startswith("3.0")
            for path in document["paths"]:
                assert path.startswith(f"/{name}/")
        apps = (await api.ask("GET", index["apis/apps/v1"]["serverRelativeURL"])).document
        schema = apps["components"]["schemas"][f"{root}.api.apps.v1.Deployment"]
        assert schema[f"{prefix}group-version-kind"] == [
            {"group": "apps", "version": "v1", "kind": "Deployment"}
        ]


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"])
async def test_matching_etag_gets_304(path: str) -> None:
    async with shared() as api:
        etag = (await api.ask("GET", path)).headers["etag"]
        assert etag == (await api.ask("GET", path)).headers["etag"]
        for known in (etag, f'"old", W/{etag}', "*"):
            again = await api.ask("GET", path, headers={"if-none-match": known})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        other = await api.ask("GET", path, headers={"if-none-match": '"old"'})
        assert other.status == 200 and other.body


async def test_etags_of_media_types_differ() -> None:
    async with shared() as api:
        json = await api.ask("GET", "/openapi/v2")
        protobuf = await api.ask("GET", "/openapi/v2", headers={"accept": PROTOBUF})
        assert json.headers["etag"] != protobuf.headers["etag"]
        assert "Accept" in json.headers["vary"]


@cases(
    ("accept", "given"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        (PROTOBUF, PROTOBUF),
        (OLD_PROTOBUF, PROTOBUF),
        (f"{OLD_PROTOBUF}, application/json;q=0.5", PROTOBUF),
        (f"{PROTOBUF};q=0.5, application/json", "application/json"),
        (f"image/png, {PROTOBUF}", PROTOBUF),
    ],
)
async def test_media_type_is_negotiated(accept: str, given: str) -> None:
    async with shared() as api:
        response = await api.ask("GET", "/openapi/v2", headers={"accept": accept})
        assert (response.status, response.headers["content-type"]) == (200, given)


@cases(
    ("path", "accept"),
    [("/openapi/v2", "image/png"), ("/openapi/v3/api/v1", PROTOBUF)],
)
async def test_other_media_types_are_not_acceptable(path: str, accept: str) -> None:
    async with shared() as api:
        status = (await api.ask("GET", path, headers={"accept": accept})).expect(406)
        assert status["reason"] == "NotAcceptable"
        assert "application/json" in status["message"]


async def test_url_with_the_current_hash_is_immutable() -> None:
    async with shared() as api:
        right = await _url(api, "apis/apps/v1")
        response = await api.ask("GET", right)
        assert "immutable" in response.headers["cache-control"] and response.headers["expires"]
        plain = await api.ask("GET", "/openapi/v3/apis/apps/v1")
        assert plain.headers["cache-control"] == "no-cache, private" and plain.body == response.body


async def test_url_with_an_old_hash_redirects_to_the_current_one() -> None:
    async with shared() as api:
        response = await api.ask("GET", "/openapi/v3/apis/apps/v1?hash=OLD")
        assert (response.status, response.headers["location"]) == (301, await _url(api, "apis/apps/v1"))


async def test_large_documents_are_compressed() -> None:
    async with shared() as api:
        compressed = await api.ask("GET", "/openapi/v2", headers={"accept-encoding": "gzip"})
        plain = await api.ask("GET", "/openapi/v2", headers={"accept-encoding": "identity"})
        assert compressed.headers["content-encoding"] == "gzip"
        assert int(compressed.headers["content-length"]) * 5 < len(plain.body)
        assert compressed.body == plain.body  # httpx decompresses it


async def test_every_method_is_served() -> None:
    async with shared() as api:
        head = await api.ask("HEAD", "/openapi/v2", headers={"accept-encoding": "identity"})
        assert (head.status, head.body) == (200, b"") and int(head.headers["content-length"]) > 100_000
        for method in ("POST", "PUT", "DELETE"):
            assert (await api.ask(method, "/openapi/v2")).status == 200, method


@cases("path", ["/openapi", "/openapi/v1", "/openapi/v2/x", "/openapi/v3/apis/nowhere/v1"])
async def test_other_paths_are_not_found(path: str) -> None:
    async with shared() as api:
        assert (await api.ask("GET", path)).status == 404


async def test_anonymous_users_may_not_read_documents() -> None:
    async with shared() as api:
        assert (await api.ask("GET", "/openapi/v3", token=ALICE)).status == 200
        assert (await api.ask("GET", "/openapi/v2", token=None)).status == 403


async def test_index_of_paths_lists_openapi() -> None:
    async with shared() as api:
        assert {"/openapi/v2", "/openapi/v3"} <= set((await api.ask("GET", "/")).document["paths"])


async def test_disabled_versions_are_not_described() -> None:
    async with served(runtime_config="apps/v1=false") as api:
        index = (await api.ask("GET", "/openapi/v3")).document["paths"]
        assert "apis/apps/v1" not in index and "apis/batch/v1" in index
        document = (await api.ask("GET", "/openapi/v2")).document
        assert not [path for path in document["paths"] if path.startswith("/apis/apps/")]
        assert "io.cluster.api.apps.v1.Deployment" not in document["definitions"]


async def _url(api: Api, part: str) -> str:
    return str((await api.ask("GET", "/openapi/v3")).document["paths"][part]["serverRelativeURL"])


async def test_document_has_the_texts_that_clients_look_for() -> None:
    """kubectl's own tests use them to find out whether a server describes its API."""
    async with shared() as api:
        body = (await api.ask("GET", "/openapi/v2")).body
        for text in (
            b"list of returned",
            b"List of services",
            b"Watch for changes to the described resources",
        ):
            assert text in body
