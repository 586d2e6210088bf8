"""A quota is charged in the commit of the object that uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from gateway.settings.controllers import ControllerSettings
from tests.gateway.api import Api, Document, served

HERE = "/api/v1/namespaces/charged"
# Without its controller, nothing else writes the status.
WITHOUT_CONTROLLER = ControllerSettings(controllers=("*", "-resourcequota", "-root-ca-cert-publisher"))


@asynccontextmanager
async def with_quota(hard: dict[str, str]) -> AsyncIterator[Api]:
    async with served(controllers=WITHOUT_CONTROLLER) as api:
        (await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "charged"}})).expect(201)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        (await api.ask("POST", f"{HERE}/resourcequotas", quota)).expect(201)
        yield api


async def create(api: Api, name: str, options: str = "") -> tuple[int, Document]:
    response = await api.ask("POST", f"{HERE}/secrets{options}", {"metadata": {"name": name}})
    return response.status, response.document


async def quota_of(api: Api) -> Document:
    return (await api.ask("GET", f"{HERE}/resourcequotas/q")).expect(200)


async def test_charge_is_the_next_version_after_the_object() -> None:
    async with with_quota({"secrets": "2"}) as api:
        for number in (1, 2):
            _, made = await create(api, f"s{number}")
            quota = await quota_of(api)
            assert quota["status"]["used"] == {"secrets": str(number)}
            versions = [int(one["metadata"]["resourceVersion"]) for one in (made, quota)]
            assert versions == [versions[0], versions[0] + 1]


async def test_dry_runs_and_refused_writes_are_not_charged() -> None:
    async with with_quota({"secrets": "1"}) as api:
        assert (await create(api, "s", "?dryRun=All"))[0] == 201
        assert "used" not in (await quota_of(api))["status"]
        assert (await create(api, "s"))[0] == 201
        assert (await create(api, "t"))[0] == 403
        assert (await quota_of(api))["status"]["used"] == {"secrets": "1"}


async def test_many_creates_at_once_are_charged_exactly() -> None:
    statuses: list[int] = []

    async def one(api: Api, name: str) -> None:
        statuses.append((await create(api, name))[0])

    async with with_quota({"secrets": "7"}) as api:
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(one, api, f"s{number}")
        assert sorted(statuses) == [201] * 7 + [403] * 5
        assert (await quota_of(api))["status"]["used"] == {"secrets": "7"}
