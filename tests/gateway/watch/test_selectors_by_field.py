"""Field selectors narrow a watch as they narrow a list, and changes of the field move objects in and out."""

from __future__ import annotations

from typing import Any

from tests.gateway.api import config_map, served
from tests.gateway.idle import until_idle
from tests.gateway.watch.watching import ports, transports, watching


def secret(name: str, kind: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "type": kind}


@transports
async def test_by_name(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        async with watching(api, path, transport, fieldSelector="metadata.name=b") as watch:
            for name in "abc":
                await api.create("configmaps", config_map(name))
            await api.replace("configmaps", config_map("c", x="1"))
            await api.delete("configmaps", "b")
            assert await watch.told(2) == [("ADDED", "b"), ("DELETED", "b")]
            await until_idle()
            assert watch.untaken == []


async def test_by_everything_but_a_name() -> None:
    async with (
        served() as api,
        watching(api, api.path("configmaps"), fieldSelector="metadata.name!=b") as watch,
    ):
        for name in "abc":
            await api.create("configmaps", config_map(name))
        assert await watch.told(2) == [("ADDED", "a"), ("ADDED", "c")]


async def test_by_a_field_of_the_kind() -> None:
    async with served() as api:
        await api.create("secrets", secret("a", "example.com/one"))
        async with watching(api, api.path("secrets"), fieldSelector="type=example.com/one") as watch:
            assert await watch.told(1) == [("ADDED", "a")]
            await api.create("secrets", secret("b", "example.com/two"))
            await api.create("secrets", secret("c", "example.com/one"))
            assert await watch.told(1) == [("ADDED", "c")]


async def test_a_field_that_changes_moves_objects_in_and_out() -> None:
    async with served() as api:
        body: dict[str, Any] = {
            "metadata": {"name": "e"},
            "involvedObject": {"namespace": "default"},
            "reason": "Started",
        }
        await api.create("events", body)
        async with (
            watching(api, "/api/v1/namespaces/default/events", fieldSelector="reason=Started") as started,
            watching(api, "/api/v1/namespaces/default/events", fieldSelector="reason=Stopped") as stopped,
        ):
            assert await started.told(1) == [("ADDED", "e")]
            await api.ask("PUT", "/api/v1/namespaces/default/events/e", {**body, "reason": "Stopped"})
            assert await stopped.told(1) == [("ADDED", "e")]
            [event] = await started.take(1)
            assert (event["type"], event["object"]["reason"]) == ("DELETED", "Started")


async def test_an_unknown_field_is_refused_before_the_stream() -> None:
    async with served() as api:
        answer = await api.ask("GET", api.path("configmaps"), watch=1, fieldSelector="spec.x=1")
        assert answer.expect(400)["reason"] == "BadRequest"
