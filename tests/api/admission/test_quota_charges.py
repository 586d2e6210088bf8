"""A quota is charged in the same commit as the object that uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.identity import SERVER_USER
from rewound.gateway.settings.settings import ControllerSettings
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from tests.gateway.api import Api, Document, served

HERE = "/api/v1/namespaces/charged"
# Without the quota controller, nothing else writes the status; the tests say there what is enforced.
WITHOUT_CONTROLLER = ControllerSettings(controllers=("default", "-resourcequota", "-root-ca-cert-publisher"))


WITH_CONTROLLER = ControllerSettings(controllers=("default", "-root-ca-cert-publisher"))


class RefusesCharges(Plugin):
    """Refuses the server's writes to the status of quotas, as an incorrect validation rule could."""

    name = "RefusesCharges"
    validates = (rule(UPDATE, of=(Resource("", "resourcequotas"),), subresources=("status",)),)

    def __init__(self) -> None:
        self.refused = 0

    def validate(self, request: AdmissionRequest) -> None:
        if request.user == SERVER_USER:
            self.refused += 1
            raise Forbidden(request.definition.resource, request.name, "no charges")


@asynccontextmanager
async def with_quota(
    hard: dict[str, str],
    controllers: ControllerSettings = WITHOUT_CONTROLLER,
    extensions: Extensions = NO_EXTENSIONS,
) -> AsyncIterator[Api]:
    async with served(controllers=controllers, extensions=extensions) as api:
        (await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "charged"}})).expect(201)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        made = (await api.ask("POST", f"{HERE}/resourcequotas", quota)).expect(201)
        if controllers is WITHOUT_CONTROLLER:
            filled = {**made, "status": {"hard": hard}}
            (await api.ask("PUT", f"{HERE}/resourcequotas/q/status", filled)).expect(200)
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


async def wait_until_used(api: Api, used: dict[str, str]) -> None:
    with trio.fail_after(30):
        while (await quota_of(api))["status"].get("used") != used:
            pass


async def test_refused_charge_is_logged_and_the_controller_writes_the_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuses = RefusesCharges()
    extensions = Extensions(admission_plugins=[refuses])
    async with with_quota({"secrets": "2"}, WITH_CONTROLLER, extensions) as api:
        assert (await create(api, "s"))[0] == 201
        await wait_until_used(api, {"secrets": "1"})
    assert refuses.refused == 1
    assert "the status of the quota charged/q was not charged: " in caplog.text
    assert "no charges" in caplog.text


class DelaysFirstCharge(AsyncPlugin):
    """Holds the charge of the first object until `go_on`; `written` is set when it is durable."""

    name = "DelaysFirstCharge"
    validates = RefusesCharges.validates

    def __init__(self) -> None:
        self.go_on, self.written = trio.Event(), trio.Event()

    def concerns(self, request: AdmissionRequest) -> bool:
        assert request.object is not None
        used = request.object["status"].get("used")
        return request.user == SERVER_USER and used == {"secrets": "1"}

    async def admit(self, request: AdmissionRequest) -> Admitted:
        await self.go_on.wait()
        request.callbacks += (lambda durable: self.written.set() if durable else None,)
        return Admitted()


async def test_late_charge_does_not_keep_an_old_status() -> None:
    delays = DelaysFirstCharge()
    extensions = Extensions(admission_plugins=[delays])
    async with with_quota({"secrets": "9"}, WITH_CONTROLLER, extensions) as api:
        for name in ("s", "t"):
            assert (await create(api, name))[0] == 201
        await wait_until_used(api, {"secrets": "2"})
        delays.go_on.set()
        with trio.fail_after(30):
            await delays.written.wait()
        await wait_until_used(api, {"secrets": "2"})
