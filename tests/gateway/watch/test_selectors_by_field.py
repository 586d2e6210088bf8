"""Field selectors narrow a watch as they narrow a list, and a changed field can add objects to it and remove them."""

from __future__ import annotations

from typing import Any

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import ports, transports, watching
from tests.settling import settled


def secret(name: str, kind: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "type": kind}


@transports
async def test_watch_selects_by_name(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        async with watching(api, path, transport, fieldSelector="metadata.name=b") as watch:
            for name in "abc":
                await api.create("configmaps", config_map(name))
            await api.replace("configmaps", config_map("c", x="1"))
            await api.delete("configmaps", "b")
            assert await watch.types_and_names(2) == [("ADDED", "b"), ("DELETED", "b")]
            await settled()
            assert watch.untaken == []


async def test_watch_excludes_a_name() -> None:
    async with (
        served() as api,
        watching(api, api.path("configmaps"), fieldSelector="metadata.name!=b") as watch,
    ):
        for name in "abc":
            await api.create("configmaps", config_map(name))
        assert await watch.types_and_names(2) == [("ADDED", "a"), ("ADDED", "c")]


async def test_watch_selects_by_a_field_of_the_kind() -> None:
    async with served() as api:
        await api.create("secrets", secret("a", "example.com/one"))
        async with watching(api, api.path("secrets"), fieldSelector="type=example.com/one") as watch:
            assert await watch.types_and_names(1) == [("ADDED", "a")]
            await api.create("secrets", secret("b", "example.com/two"))
            await api.create("secrets", secret("c", "example.com/one"))
            assert await watch.types_and_names(1) == [("ADDED", "c")]


async def test_changed_field_gives_added_and_deleted() -> None:
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
            assert await started.types_and_names(1) == [("ADDED", "e")]
            await api.ask("PUT", "/api/v1/namespaces/default/events/e", {**body, "reason": "Stopped"})
            assert await stopped.types_and_names(1) == [("ADDED", "e")]
            [event] = await started.take(1)
            assert (event["type"], event["object"]["reason"]) == ("DELETED", "Started")


async def test_unknown_field_gets_400() -> None:
    async with served() as api:
        response = await api.ask("GET", api.path("configmaps"), watch=1, fieldSelector="spec.x=1")
        assert response.expect(400)["reason"] == "BadRequest"
