"""Methods that a path does not allow get a 405 with a Status and change nothing."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.gateway.api import ALICE, config_map
from tests.gateway.shared_server import shared

COLLECTION = "/api/v1/namespaces/default/configmaps"
REFUSED = [
    *[(method, COLLECTION) for method in ("PUT", "PATCH", "OPTIONS", "TRACE")],
    *[(method, f"{COLLECTION}/a") for method in ("POST", "OPTIONS", "TRACE")],
    # Writes need a namespace.
    *[(method, "/api/v1/configmaps") for method in ("POST", "PUT", "PATCH", "DELETE")],
    # A kind that declares no deletecollection.
    ("DELETE", "/api/v1/namespaces"),
    *[(method, "/api/v1/namespaces/default/status") for method in ("POST", "DELETE")],
    *[(method, "/api/v1/namespaces/default/finalize") for method in ("GET", "POST", "DELETE")],
    *[
        (method, path)
        for path in ("/api", "/api/v1", "/apis/storage.cluster.io/v1", "/version")
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    ],
]
# Paths that respond to every method, as in kube-apiserver.
PLAIN = [
    "/",
    "/apis",
    "/apis/",
    "/apis/storage.cluster.io",
    "/livez",
    "/livez?verbose",
    "/readyz/ping",
    "/healthz",
    "/healthz/nothing",
    "/openapi/v3",
]


@cases("method", sorted({method for method, _ in REFUSED}))
async def test_unsupported_method_of_a_path_is_not_allowed(method: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        head = await api.head()
        for path in [path for refused, path in REFUSED if refused == method]:
            status = (await api.ask(method, path, config_map("a", text="new"))).expect(405)
            assert status["reason"] == "MethodNotAllowed", path
            assert status["message"] == "the server does not allow this method on the requested resource"
            assert status["details"] == {}, path
        assert await api.head() == head


@cases("path", PLAIN)
async def test_plain_path_responds_to_every_method(path: str) -> None:
    async with shared() as api:
        got = await api.ask("GET", path)
        for method in ("HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
            body = config_map("a") if method in ("POST", "PUT", "PATCH") else None
            response = await api.ask(method, path, body)
            assert response.status == got.status, method
            assert response.body == (b"" if method == "HEAD" else got.body), method
            assert response.headers["content-length"] == got.headers["content-length"]
        for method in ("HEAD", "POST"):  # the method decides which right is needed
            assert (await api.ask(method, path, token=ALICE)).status == 403


@cases("path", ["/metrics", "/debug/api_priority_and_fairness/dump_priority_levels"])
async def test_figures_are_served_to_every_method(path: str) -> None:
    async with shared() as api:
        for method in ("HEAD", "POST", "DELETE"):
            assert (await api.ask(method, path)).status == 200


@pytest.mark.parametrize("method", ["FOO", "CONNECT"])
async def test_unknown_method_is_not_allowed(method: str) -> None:
    async with shared() as api:
        status = (await api.ask(method, COLLECTION)).expect(405)
        assert (status["kind"], status["reason"], status["details"]) == ("Status", "MethodNotAllowed", {})
        assert (await api.ask("GET", "/livez")).status == 200


@cases("method", ["OPTIONS", "TRACE"])
async def test_other_methods_of_resources_have_no_verb(method: str) -> None:
    async with shared() as api:
        refused = (await api.ask(method, COLLECTION, token=ALICE)).expect(403)
        what = 'resource "configmaps" in API group "" in the namespace "default"'
        assert refused["message"] == f'configmaps is forbidden: User "alice" cannot  {what}'
        refused = (await api.ask(method, "/nope", token=ALICE)).expect(403)
        assert refused["message"] == f'forbidden: User "alice" cannot {method.lower()} path "/nope"'


async def test_authorization_comes_before_the_method_check() -> None:
    async with shared() as api:
        for method, path in REFUSED:
            response = await api.ask(method, path, config_map("a"), token=None)
            assert response.status == 403, (method, path)


@cases(
    ("method", "path", "allowed"),
    [
        ("PATCH", COLLECTION, "GET, POST, DELETE"),
        ("POST", f"{COLLECTION}/a", "GET, PUT, PATCH, DELETE"),
        ("POST", "/api/v1/configmaps", "GET"),
        ("DELETE", "/api/v1/namespaces", "GET, POST"),
        ("GET", "/api/v1/namespaces/default/finalize", "PUT"),
        ("POST", "/api/v1/watch/configmaps", "GET"),
        ("GET", "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews", "POST"),
        ("POST", "/version", "GET"),
        ("POST", "/api", "GET"),
        ("FOO", COLLECTION, "GET, POST, PUT, PATCH, DELETE"),
    ],
)
async def test_allow_header_lists_the_methods_of_the_path(method: str, path: str, allowed: str) -> None:
    async with shared() as api:
        response = await api.ask(method, path)
        assert (response.status, response.headers["allow"]) == (405, allowed)
        assert response.headers["cache-control"] == "no-cache, private"
        assert response.headers["audit-id"]
