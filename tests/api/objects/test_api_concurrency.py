"""Optimistic concurrency: a resourceVersion in the body is a precondition, and of several writers one wins."""

from __future__ import annotations

import pytest
import trio

from tests.actors.object_store import Document, Refused
from tests.gateway.api import Opener, config_map, everywhere, served
from tests.gateway.custom_api import generic


def changed(version: str | None, text: str = "new", **metadata: object) -> Document:
    body = config_map("a", text=text)
    body["metadata"].update(metadata)
    if version is not None:
        body["metadata"]["resourceVersion"] = version
    return body


@everywhere
@pytest.mark.parametrize("version", [None, "", "0"])
async def test_last_write_without_a_version_wins(opened: Opener, version: str | None) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("a", text="old"))
        await api.replace("configmaps", changed(version, "one"))
        await api.replace("configmaps", changed(version, "two"))
        assert (await api.get("configmaps", "a"))["data"] == {"text": "two"}


@generic
async def test_current_version_is_accepted(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", config_map("a", text="old"))
        put = await api.replace("configmaps", changed(made["metadata"]["resourceVersion"]))
        assert int(put["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@generic
@pytest.mark.parametrize("difference", [-1, 1, 1_000_000])
async def test_any_other_version_is_a_conflict(opened: Opener, difference: int) -> None:
    async with opened() as api:
        made = await api.create("configmaps", config_map("a", text="old"))
        version = str(int(made["metadata"]["resourceVersion"]) + difference)
        with pytest.raises(Refused, match="the object has been modified") as refused:
            await api.replace("configmaps", changed(version))
        assert refused.value.reason == "Conflict"
        assert (await api.get("configmaps", "a"))["data"] == {"text": "old"}


@generic
async def test_version_far_ahead_is_a_conflict(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("a"))
        with pytest.raises(Refused) as refused:
            await api.replace("configmaps", changed(str(2**64 - 1)))
        assert refused.value.reason == "Conflict"


@generic
@pytest.mark.parametrize("version", ["x", "-1", "1.0", "٣", "9" * 5000])
async def test_malformed_version_is_refused(opened: Opener, version: str) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("a", text="old"))
        with pytest.raises(Refused, match=r"metadata\.resourceVersion: Invalid value") as refused:
            await api.replace("configmaps", changed(version))
        assert refused.value.reason == "BadRequest"


@generic
async def test_uid_of_another_object_is_a_conflict(opened: Opener) -> None:
    async with opened() as api:
        made = await api.create("configmaps", config_map("a"))
        await api.delete("configmaps", "a")
        await api.create("configmaps", config_map("a", text="another"))
        with pytest.raises(Refused, match="UID in precondition") as refused:
            await api.replace("configmaps", changed(None, uid=made["metadata"]["uid"]))
        assert refused.value.reason == "Conflict"


@generic
async def test_update_without_a_version_is_refused_for_some_kinds(opened: Opener) -> None:
    async with opened() as api:
        await api.create("leases", {"metadata": {"name": "a"}})
        for version in ("", "0"):
            with pytest.raises(Refused, match="must be specified for an update") as refused:
                await api.replace("leases", {"metadata": {"name": "a", "resourceVersion": version}})
            assert refused.value.reason == "Invalid"


@generic
async def test_one_of_many_writers_wins_each_version(opened: Opener) -> None:
    async with opened() as api:
        version = (await api.create("configmaps", config_map("a", text="0")))["metadata"]["resourceVersion"]
        won: list[str] = []
        lost: list[str] = []

        async def write(number: int) -> None:
            try:
                await api.replace("configmaps", changed(version, f"writer {number}"))
                won.append(f"writer {number}")
            except Refused as refused:
                lost.append(refused.reason)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(write, number)
        assert len(won) == 1
        assert lost == ["Conflict"] * 9
        assert (await api.get("configmaps", "a"))["data"]["text"] == won[0]


@generic
async def test_retries_on_conflict_lose_no_change(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", config_map("a", text="0"))
        versions: list[int] = []

        async def add_one() -> None:
            while True:
                found = await api.get("configmaps", "a")
                found["data"]["text"] = str(int(found["data"]["text"]) + 1)
                try:
                    put = await api.replace("configmaps", found)
                except Refused:
                    continue
                versions.append(int(put["metadata"]["resourceVersion"]))
                return

        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(add_one)
        assert (await api.get("configmaps", "a"))["data"]["text"] == "12"
        assert versions == sorted(set(versions))


@generic
async def test_one_of_many_creates_of_a_name_wins(opened: Opener) -> None:
    async with opened() as api:
        outcomes: list[str] = []

        async def create(number: int) -> None:
            try:
                await api.create("configmaps", config_map("a", text=str(number)))
                outcomes.append("made")
            except Refused as refused:
                outcomes.append(refused.reason)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(create, number)
        assert sorted(outcomes) == ["AlreadyExists"] * 9 + ["made"]


async def test_status_of_a_conflict_names_the_object() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        status = (await api.ask("PUT", api.path("configmaps", name="a"), changed("1"))).expect(409)
        assert status["reason"] == "Conflict"
        assert status["details"] == {"name": "a", "kind": "configmaps"}
        assert status["message"].startswith('Operation cannot be fulfilled on configmaps "a": ')
