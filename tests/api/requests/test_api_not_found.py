"""404: a Status if the group is served, plain text if it is not."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from rewound.actors.golang.quoting import quoted
from tests.cases import cases
from tests.gateway.api import ALICE, config_map, served
from tests.gateway.shared_server import shared

NO_RESOURCE = [
    "/api/v2",
    "/api/v1/things",
    "/api/v2/configmaps",
    "/api/v1/namespaces/default/things",
    "/api/v1/namespaces/default/things/a",
    "/api/v1/namespaces/default/configmaps/a/status",
    "/api/v1/namespaces/default/configmaps/a/b/c",
    "/api/v1/namespaces/default/configmaps/a/proxy/c",
    "/api/v1/namespaces/default/configmaps/a%2Fb",
    "/api/v1/configmaps/a",
    "/api/v1/namespaces/default/nodes",
    "/api/v1/namespaces/default/namespaces",
    "/api/v1/namespaces/default/namespaces/cluster-system",
    "/api/v1//configmaps",
    "/api/v1/bindings",
    "/apis/authorization.cluster.io/v1/localsubjectaccessreviews",
    "/apis/storage.cluster.io/v1/things",
    "/apis/storage.cluster.io/v2/storageclasses",
    "/apis/storage.cluster.io/v9",
    "/apis/apps/v1beta1",
]
NO_PATH = [
    "/index.html",
    "/livez/nothing",
    "/livez/ping/more",
    "/version/more",
    "/metrics/more",
    # Authorizers know these paths only in their usual form.
    "/metrics/",
    "//metrics",
    "/%2Fmetrics",
    "/livez/",
    "//livez",
    "/livez//ping",
    "/livez/ping/",
    "/openapi/v2/",
    "/openapi//v2",
    "//version",
    "/version//",
    "/openid/v1//jwks",
    "/.well-known//openid-configuration",
    "/apis/nobody",
    "/apis/nobody/v1",
    "/apis/nobody/v1/things",
    "/apis/nobody/v1/namespaces/default/things/a",
]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_unknown_resource_of_a_group_is_a_status(method: str) -> None:
    async with shared() as api:
        head = await api.head()
        for path in NO_RESOURCE:
            status = (await api.ask(method, path, config_map("a"))).expect(404)
            assert status["message"] == "the server could not find the requested resource", path
            assert (status["reason"], status["details"], status["code"]) == ("NotFound", {}, 404)
        assert await api.head() == head


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unknown_path_is_plain_text(method: str) -> None:
    async with shared() as api:
        for path in NO_PATH:
            response = await api.ask(method, path, b"{}" if method == "POST" else None)
            assert (response.status, response.text) == (404, "404 page not found\n"), path
            assert response.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("token", [None, ALICE], ids=["anonymous", "without rights"])
async def test_forbidden_request_does_not_reveal_what_exists(token: str | None) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        there = "/api/v1/namespaces/default/configmaps/a"
        hidden = [path for path in NO_RESOURCE + NO_PATH if path.count("/") > 3]
        for path in [there, *hidden]:
            status = (await api.ask("GET", path, token=token)).expect(403)
            assert status["reason"] == "Forbidden", path


@cases("name", ["missing", "Impossible_Name", "x" * 300, "%20", "%00", "%ff", "%F0%9F%92%A9"])
@cases("method", ["GET", "DELETE"])
async def test_missing_object_is_not_found(method: str, name: str) -> None:
    async with shared() as api:
        head = await api.head()
        status = (
            await api.ask(method, f"/apis/coordination.cluster.io/v1/namespaces/default/leases/{name}")
        ).expect(404)
        details = status["details"]
        assert (details["kind"], details["group"]) == ("leases", "coordination.cluster.io")
        assert status["message"] == f"leases.coordination.cluster.io {quoted(details['name'])} not found"
        assert await api.head() == head


async def test_missing_namespace_has_empty_collections_and_refuses_writes() -> None:
    async with served() as api:
        assert (await api.list("configmaps", "missing"))["items"] == []
        assert (await api.ask("DELETE", api.path("configmaps", "missing"))).status == 200
        status = (await api.ask("POST", api.path("configmaps", "missing"), config_map("a"))).expect(404)
        assert status["details"] == {"name": "missing", "kind": "namespaces"}
        status = (await api.ask("PUT", api.path("configmaps", "missing", "a"), config_map("a"))).expect(404)
        assert status["details"] == {"name": "a", "kind": "configmaps"}


@cases(
    ("path", "message"),
    [
        ("/apis/apps/v1/namespaces/default/deployments/a/scale", 'deployments/scale.apps "a" not found'),
        ("/apis/apps/v1/namespaces/default/replicasets/a/scale", 'replicasets/scale.apps "a" not found'),
        ("/apis/apps/v1/namespaces/default/statefulsets/a/scale", 'statefulsets.apps "a" not found'),
        (
            "/api/v1/namespaces/default/replicationcontrollers/a/scale",
            'replicationcontrollers/scale.autoscaling "a" not found',
        ),
        ("/apis/apps/v1/namespaces/default/deployments/a/status", 'deployments.apps "a" not found'),
    ],
)
async def test_subresource_of_a_missing_object_is_not_found(path: str, message: str) -> None:
    async with shared() as api:
        assert (await api.ask("GET", path)).expect(404)["message"] == message


@cases("method", ["GET", "DELETE", "PUT", "PATCH"])
@cases(("name", "why"), [("%2e%2e", "\"..\": may not be '..'"), ("a%25", "\"a%\": may not contain '%'")])
async def test_impossible_name_is_not_found(method: str, name: str, why: str) -> None:
    async with shared() as api:
        body = {"metadata": {"name": unquote(name)}} if method in ("PUT", "PATCH") else None
        headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        path = f"/api/v1/namespaces/default/configmaps/{name}"
        status = (await api.ask(method, path, body, headers=headers)).expect(400)
        assert (status["reason"], status["message"]) == ("BadRequest", f"Name parameter invalid: {why}")
