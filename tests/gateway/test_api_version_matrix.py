"""All combinations of resourceVersion, resourceVersionMatch, limit and continue, in the order of Kubernetes' table.

The collection holds a and b at the old version; at the newest, c was created and a deleted. NEWEST is correct where the
table has Most recent, Any or Not older than: this server has no stale copies.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.object_store import Refused, Verbs
from tests.cases import cases
from tests.gateway.api import Opener, config_map, everywhere, names
from tests.gateway.shared_server import shared

NEWEST, OLD, TOKEN, INVALID, BAD = "newest", "old", "token", "Invalid", "BadRequest"
PLAIN, LIMITED, CONTINUED = "no limit", "limit", "limit and continue"
UNSET, ZERO, OTHER = "unset", "0", "other"

MATRIX = [
    # match, limit and continue, version -> listed version, or the error
    ("", PLAIN, UNSET, NEWEST),
    ("", PLAIN, ZERO, NEWEST),
    ("", PLAIN, OTHER, NEWEST),
    ("", LIMITED, UNSET, NEWEST),
    ("", LIMITED, ZERO, NEWEST),
    ("", LIMITED, OTHER, OLD),
    ("", CONTINUED, UNSET, TOKEN),
    ("", CONTINUED, ZERO, TOKEN),
    ("", CONTINUED, OTHER, BAD),
    ("Exact", PLAIN, UNSET, INVALID),
    ("Exact", PLAIN, ZERO, INVALID),
    ("Exact", PLAIN, OTHER, OLD),
    ("Exact", LIMITED, UNSET, INVALID),
    ("Exact", LIMITED, ZERO, INVALID),
    ("Exact", LIMITED, OTHER, OLD),
    ("Exact", CONTINUED, UNSET, INVALID),
    ("Exact", CONTINUED, ZERO, INVALID),
    ("Exact", CONTINUED, OTHER, INVALID),
    ("NotOlderThan", PLAIN, UNSET, INVALID),
    ("NotOlderThan", PLAIN, ZERO, NEWEST),
    ("NotOlderThan", PLAIN, OTHER, NEWEST),
    ("NotOlderThan", LIMITED, UNSET, INVALID),
    ("NotOlderThan", LIMITED, ZERO, NEWEST),
    ("NotOlderThan", LIMITED, OTHER, NEWEST),
    ("NotOlderThan", CONTINUED, UNSET, INVALID),
    ("NotOlderThan", CONTINUED, ZERO, INVALID),
    ("NotOlderThan", CONTINUED, OTHER, INVALID),
    ("Newest", PLAIN, OTHER, INVALID),
    ("exact", PLAIN, OTHER, INVALID),
]

cells = pytest.mark.parametrize(("match", "chunk", "version", "expected"), MATRIX, ids=" / ".join)


async def query_of(api: Verbs, match: str, chunk: str, version: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters of a cell, and the versions that its response may have."""
    for name in ("a", "b"):
        made = await api.create("configmaps", config_map(name))
    old = made["metadata"]["resourceVersion"]
    token = (await api.list("configmaps", limit=1))["metadata"]["continue"]
    await api.create("configmaps", config_map("c"))
    await api.delete("configmaps", "a")
    newest = (await api.list("configmaps"))["metadata"]["resourceVersion"]
    query: dict[str, Any] = {"resourceVersionMatch": match} if match else {}
    if version != UNSET:
        query["resourceVersion"] = "0" if version == ZERO else old
    if chunk != PLAIN:
        query["limit"] = 10
    if chunk == CONTINUED:
        query["continue"] = token
    return query, {NEWEST: newest, OLD: old, TOKEN: old}


@everywhere
@cells
async def test_list_with_every_combination(
    opened: Opener, match: str, chunk: str, version: str, expected: str
) -> None:
    async with opened() as api:
        query, versions = await query_of(api, match, chunk, version)
        if expected in (INVALID, BAD):
            with pytest.raises(Refused) as refused:
                await api.list("configmaps", **query)
            assert refused.value.reason == expected
        else:
            listed = await api.list("configmaps", **query)
            assert names(listed) == {NEWEST: ["b", "c"], OLD: ["a", "b"], TOKEN: ["b"]}[expected]
            assert listed["metadata"] == {"resourceVersion": versions[expected]}


@everywhere
@cells
async def test_list_of_one_name_with_every_combination(
    opened: Opener, match: str, chunk: str, version: str, expected: str
) -> None:
    """A list that a field selector limits to one name follows the same table."""
    async with opened() as api:
        query, versions = await query_of(api, match, chunk, version)
        query["fieldSelector"] = "metadata.name=a"
        if expected in (INVALID, BAD):
            with pytest.raises(Refused) as refused:
                await api.list("configmaps", **query)
            assert refused.value.reason == expected
        else:
            listed = await api.list("configmaps", **query)
            assert names(listed) == {NEWEST: [], OLD: ["a"], TOKEN: []}[expected]
            assert listed["metadata"] == {"resourceVersion": versions[expected]}


@everywhere
@pytest.mark.parametrize("version", [UNSET, ZERO, OTHER])
async def test_get_with_every_resource_version(opened: Opener, version: str) -> None:
    async with opened() as api:
        old = (await api.create("configmaps", config_map("a", text="old")))["metadata"]["resourceVersion"]
        await api.replace("configmaps", config_map("a", text="new"))
        query = {UNSET: {}, ZERO: {"resourceVersion": "0"}, OTHER: {"resourceVersion": old}}[version]
        assert (await api.get("configmaps", "a", **query))["data"] == {"text": "new"}


@cases(
    ("query", "code", "text"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            422,
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        ({"resourceVersionMatch": "Latest", "resourceVersion": "1"}, 422, 'Unsupported value: "Latest"'),
        (
            {"continue": "x", "resourceVersion": "7"},
            400,
            "resource version is not allowed when using continue",
        ),
    ],
)
async def test_status_names_the_invalid_combination(query: dict[str, str], code: int, text: str) -> None:
    async with shared() as api:
        status = (await api.ask("GET", api.path("configmaps"), **query)).expect(code)
        assert text in status["message"]
        if code == 422:
            assert status["details"]["causes"][0]["field"] == "resourceVersionMatch"
