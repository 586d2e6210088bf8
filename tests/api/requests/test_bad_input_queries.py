"""Malformed or invalid queries get 400 or 422 and are never partly applied."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.gateway.api import config_map, names, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
UNREADABLE = [
    "limit=1;continue=x",
    "labelSelector=%zz",
    "labelSelector=%",
    "labelSelector=a%3",
    "%gg=1",
]
REFUSED = [
    ("GET", "limit=x", 400, "limit"),
    ("GET", "limit=", 400, "limit"),
    ("GET", "limit=1.5", 400, "limit"),
    ("GET", "limit=99999999999999999999", 400, "limit"),
    (
        "GET",
        "timeout=soon",
        400,
        'invalid timeout specified in the request URL - time: invalid duration "soon"',
    ),
    ("GET", "timeout=5", 400, "missing unit in duration"),
    ("GET", "labelSelector=a==b==c", 400, "found"),
    ("GET", "labelSelector=a+in+(", 400, "unable to parse requirement"),
    ("GET", "labelSelector=%00", 400, "unable to parse requirement"),
    ("GET", "labelSelector=%FF%FE", 400, "unable to parse requirement"),
    ("GET", "labelSelector=" + "x" * 5000, 400, "63 characters"),
    ("GET", "labelSelector=" + ",".join(["a"] * 3001), 400, "at most 3000 requirements"),
    ("GET", "fieldSelector=" + ",".join(["type=a"] * 3001), 400, "at most 3000 requirements"),
    ("GET", "fieldSelector=a", 400, "invalid selector"),
    ("GET", "fieldSelector=spec.unknown%3Dx", 400, "spec.unknown"),
    ("GET", "resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
    ("POST", "dryRun=Some", 422, "dryRun"),
    ("POST", "dryRun=All&dryRun=Some", 422, "dryRun"),
    ("POST", "fieldValidation=Sometimes", 422, "fieldValidation"),
    ("POST", "fieldManager=" + "x" * 129, 422, "fieldManager"),
    ("POST", "fieldManager=%00", 422, "fieldManager"),
    ("DELETE", "labelSelector=a==b==c", 400, "found"),
    ("DELETE", "fieldSelector=spec.unknown%3Dx", 400, "spec.unknown"),
    ("DELETE", "gracePeriodSeconds=x", 400, "gracePeriodSeconds"),
    ("DELETE", "propagationPolicy=Sometimes", 422, "propagationPolicy"),
    ("DELETE", "dryRun=Some", 422, "dryRun"),
]


@cases("query", UNREADABLE)
@cases("method", ["GET", "DELETE"])
async def test_malformed_query_is_refused(method: str, query: str) -> None:
    """If a malformed selector were ignored, a delete would delete everything."""
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        message = await api.refuse(method, f"{PATH}?{query}", b"", 400)
        assert message.startswith("the query of the request has ")
        assert names(await api.list("configmaps")) == ["a"]


@cases(("method", "query", "code", "expected"), REFUSED)
async def test_invalid_parameters_are_refused(method: str, query: str, code: int, expected: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        body = b'{"metadata":{"name":"b"}}' if method == "POST" else b""
        message = await api.refuse(method, f"{PATH}?{query}", body, code)
        assert expected in message
        assert names(await api.list("configmaps")) == ["a"]


async def test_unknown_parameters_are_ignored() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        response = await api.ask(
            "GET", f"{PATH}?unknown=1&&=&x&labelSelector=&fieldSelector=&continue=&resourceVersion="
        )
        assert names(response.expect(200)) == ["a"]


@pytest.mark.parametrize("query", ["export", "export=true", "export=yes"])
async def test_export_is_refused(query: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        expected = "the export parameter, deprecated since v1.14, is no longer supported"
        assert await api.refuse("GET", f"{PATH}/a?{query}", b"", 400) == expected
        (await api.ask("GET", f"{PATH}/a?export=false")).expect(200)


@pytest.mark.parametrize(
    "query", ["fieldSelector=metadata.name%3Db", "fieldSelector=metadata.namespace%3Ddefault"]
)
async def test_watch_of_one_object_refuses_another_name(query: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        expected = "fieldSelector metadata.name doesn't match requested name"
        assert await api.refuse("GET", f"{PATH}/a?watch=1&{query}", b"", 400) == expected


@cases("timeout", ["32s", "0", "1m30s", "1.5h", "500ms", "-1s", ""])
async def test_timeout_parameter_is_accepted(timeout: str) -> None:
    async with shared() as api:
        (await api.ask("GET", f"{PATH}?timeout={timeout}")).expect(200)
