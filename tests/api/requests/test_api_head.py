"""HEAD is not allowed on resources and their discovery (405 for those who may read); health and metrics serve it."""

from __future__ import annotations

from tests.actors.access.authorization.policies import binding, role, user
from tests.cases import cases
from tests.gateway.api import ALICE, config_map, served
from tests.gateway.shared_server import shared

COLLECTION = "/api/v1/namespaces/default/configmaps"
REFUSED = [
    COLLECTION,
    f"{COLLECTION}?watch=1",
    f"{COLLECTION}/a",
    f"{COLLECTION}/missing",
    "/api/v1/namespaces/default/status",
    "/api",
    "/api/v1",
    "/apis/storage.cluster.io/v1",
    "/version",
]
TAKEN = [
    "/",
    "/livez",
    "/livez?verbose",
    "/readyz/ping",
    "/healthz",
    "/livez/nothing",
    "/openapi/v3",
    "/apis",
]


@cases("path", REFUSED)
async def test_head_is_not_allowed_on_resources_and_discovery(path: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        response = await api.ask("HEAD", path)
        assert (response.status, response.body) == (405, b"")
        assert response.headers["content-length"] != "0"
        assert "HEAD" not in response.headers["allow"]
        assert "GET" in response.headers["allow"]


@cases("path", TAKEN)
async def test_head_is_get_without_a_body(path: str) -> None:
    async with shared() as api:
        got, head = await api.ask("GET", path), await api.ask("HEAD", path)
        assert (head.status, head.body) == (got.status, b"")
        for name in ("content-type", "content-length"):
            assert head.headers[name] == got.headers[name]


async def test_head_of_metrics_is_shared() -> None:
    async with shared() as api:
        response = await api.ask("HEAD", "/metrics")
        assert (response.status, response.body) == (200, b"")


async def test_head_of_a_resource_needs_the_rights_of_get_and_that_of_a_path_its_own() -> None:
    heads = {"verbs": ["head"], "nonResourceURLs": ["/livez"]}
    async with served() as api:
        assert (await api.ask("HEAD", COLLECTION, token=None)).status == 403
        assert (await api.ask("GET", "/livez", token=ALICE)).status == 200
        assert (await api.ask("HEAD", "/livez", token=ALICE)).status == 403
        await api.create("clusterroles", role("heads", heads))
        await api.create("clusterrolebindings", binding("heads", "heads", user("alice")))
        assert (await api.ask("HEAD", "/livez", token=ALICE)).status == 200
        assert (await api.ask("HEAD", "/readyz", token=ALICE)).status == 403
