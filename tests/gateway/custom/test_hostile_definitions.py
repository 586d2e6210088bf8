"""Definitions that would take much of the server are refused, or delay nobody."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.gateway.api import Api, served
from tests.gateway.custom.kinds import (
    DEFINITIONS,
    GROUP,
    WIDGETS,
    define,
    definition,
    until,
    version,
    widget,
)

TEXT = {"type": "string"}
MANY = {"type": "object", "properties": {f"property-{number}": TEXT for number in range(3000)}}
LONG = " || ".join(["self.size == 1"] * 3000)


def many_columns() -> dict[str, Any]:
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".a"} for number in range(1001)]
    return definition(version(additionalPrinterColumns=columns))


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (
            definition(*[version(f"v{number}", storage=number == 1) for number in range(1, 3000)]),
            "spec.versions: Too many: 2999: must have at most 100 items",
        ),
        (many_columns(), "spec.additionalPrinterColumns: Too many: 1001: must have at most 1000 items"),
        (
            definition(shortNames=[f"s{number}" for number in range(101)]),
            "spec.names.shortNames: Too many: 101: must have at most 100 items",
        ),
    ],
    ids=["versions", "columns", "names"],
)
async def test_definitions_with_too_much_of_something_are_refused(declared: Any, wrong: str) -> None:
    async with served() as api:
        refused = await api.ask("POST", DEFINITIONS, declared)
        assert refused.status == 422
        assert wrong in refused.text


async def served_meanwhile(api: Api, method: str, path: str, body: Any) -> tuple[int, int]:
    """The status of a request, and how many others the server responded to while it worked on it."""
    statuses: list[int] = []
    others = 0

    async def ask() -> None:
        statuses.append((await api.ask(method, path, body)).status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not statuses:
            (await api.ask("GET", "/version")).expect(200)
            others += not statuses
    return statuses[0], others


@pytest.mark.parametrize(
    "spec",
    [
        MANY,
        {
            "type": "object",
            "properties": {"size": {"type": "integer"}},
            "x-cluster-validations": [{"rule": LONG}],
        },
    ],
    ids=["many-properties", "long-rule"],
)
async def test_a_large_schema_delays_no_other_request(spec: dict[str, Any]) -> None:
    async with served() as api:
        status, others = await served_meanwhile(api, "POST", DEFINITIONS, definition(version(spec=spec)))
        assert (status, others > 2) == (201, True)

        async def is_served() -> bool:
            return (await api.ask("GET", f"/apis/{GROUP}/v1")).status == 200

        await until(api, is_served)
        status, others = await served_meanwhile(api, "POST", WIDGETS, widget("a"))
        assert (status, others > 2) == (201, True)


async def test_definitions_named_like_built_in_kinds_change_none_of_them() -> None:
    async with served() as api:
        before = (await api.ask("GET", "/apis/apps/v1")).expect(200)
        declared = definition(plural="deployments", kind="Deployment")
        declared["metadata"]["name"] = "deployments.apps"
        declared["spec"]["group"] = "apps"
        refused = await api.ask("POST", DEFINITIONS, declared)
        assert refused.status == 422
        assert "should be a domain with at least one dot" in refused.text
        declared["metadata"]["name"] = "deployments."
        declared["spec"]["group"] = ""
        assert (await api.ask("POST", DEFINITIONS, declared)).status == 422
        assert (await api.ask("GET", "/apis/apps/v1")).expect(200) == before


async def test_a_built_in_group_version_belongs_to_built_in_kinds_alone() -> None:
    async with served() as api:
        group = "coordination.cluster.io"
        before = (await api.ask("GET", f"/apis/{group}/v1")).expect(200)
        declared = definition(plural="leases", kind="Lease")
        declared["metadata"] = {
            "name": f"leases.{group}",
            "annotations": {"api-approved.cluster.io": "unapproved, a test"},
        }
        declared["spec"]["group"] = group
        await define(api, declared)
        assert (await api.ask("GET", f"/apis/{group}/v1")).expect(200) == before
        lease = {"apiVersion": f"{group}/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {}}
        (await api.ask("POST", f"/apis/{group}/v1/namespaces/default/leases", lease)).expect(201)
        (await api.ask("DELETE", f"{DEFINITIONS}/leases.{group}")).expect(200)

        async def is_gone() -> bool:
            return (await api.ask("GET", f"{DEFINITIONS}/leases.{group}")).status == 404

        await until(api, is_gone)
        (await api.ask("GET", f"/apis/{group}/v1/namespaces/default/leases/a")).expect(200)
