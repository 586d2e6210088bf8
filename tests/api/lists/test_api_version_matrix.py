"""All combinations of resourceVersion, resourceVersionMatch, limit and continue, in the order of Kubernetes' table.

The collection holds a and b at the old version; at the newest, c was created and a deleted. NEWEST is correct where the
table has Most recent, Any or Not older than: this server has no stale copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.actors.object_store import Refused, Verbs
from tests.cases import cases, checking
from tests.gateway.api import Opener, config_map, everywhere, names
from tests.gateway.shared_server import shared

NEWEST, OLD, TOKEN, INVALID, BAD = "newest", "old", "token", "Invalid", "BadRequest"
PLAIN, LIMITED, CONTINUED = "no limit", "limit", "limit and continue"
UNSET, ZERO, OTHER = "unset", "0", "other"
Cell = tuple[str, str, str, str]

MATRIX: list[Cell] = [
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


@dataclass
class Filled:
    """A server with the collection: its versions, and a token of a list at the old one."""

    api: Verbs
    old: str
    newest: str
    token: str

    async def check(self, cell: Cell, found: dict[str, list[str]], **selector: str) -> None:
        """A list with the parameters of a cell has the names that are found at its version, or the error."""
        match, chunk, version, expected = cell
        query = {**self._query(match, chunk, version), **selector}
        if expected in (INVALID, BAD):
            with pytest.raises(Refused) as refused:
                await self.api.list("configmaps", **query)
            assert refused.value.reason == expected
        else:
            listed = await self.api.list("configmaps", **query)
            assert names(listed) == found[expected]
            assert listed["metadata"] == {"resourceVersion": self.newest if expected == NEWEST else self.old}

    def _query(self, match: str, chunk: str, version: str) -> dict[str, Any]:
        query: dict[str, Any] = {"resourceVersionMatch": match} if match else {}
        if version != UNSET:
            query["resourceVersion"] = "0" if version == ZERO else self.old
        if chunk != PLAIN:
            query["limit"] = 10
        if chunk == CONTINUED:
            query["continue"] = self.token
        return query


@asynccontextmanager
async def filled(opened: Opener) -> AsyncIterator[Filled]:
    async with opened() as api:
        for name in ("a", "b"):
            made = await api.create("configmaps", config_map(name))
        token = (await api.list("configmaps", limit=1))["metadata"]["continue"]
        await api.create("configmaps", config_map("c"))
        await api.delete("configmaps", "a")
        newest = (await api.list("configmaps"))["metadata"]["resourceVersion"]
        yield Filled(api, made["metadata"]["resourceVersion"], newest, token)


@everywhere
async def test_list_with_every_combination(opened: Opener) -> None:
    async with filled(opened) as collection:
        with checking() as case:
            for cell in MATRIX:
                with case(cell):
                    await collection.check(cell, {NEWEST: ["b", "c"], OLD: ["a", "b"], TOKEN: ["b"]})


@everywhere
async def test_list_of_one_name_with_every_combination(opened: Opener) -> None:
    """A list that a field selector limits to one name follows the same table."""
    async with filled(opened) as collection:
        with checking() as case:
            for cell in MATRIX:
                with case(cell):
                    found: dict[str, list[str]] = {NEWEST: [], OLD: ["a"], TOKEN: []}
                    await collection.check(cell, found, fieldSelector="metadata.name=a")


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
