"""Exact versions expire with the watch history; NotOlderThan never expires."""

from __future__ import annotations

import pytest

from rewound.actors.profile import DOCUMENTS, V1_25
from tests.actors.object_store import WATCH_HISTORY, Refused, Verbs
from tests.gateway.api import Opener, config_map, everywhere, names, served


async def two_versions(api: Verbs) -> tuple[str, str]:
    """Versions before and after a change of one object, further apart than the watch history."""
    made = await api.create("configmaps", config_map("a", text="old"))
    api.clock.advance(WATCH_HISTORY + 10)
    changed = await api.replace("configmaps", config_map("a", text="new"))
    return made["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"]


async def refusal(api: Verbs, **query: object) -> Refused:
    with pytest.raises(Refused) as refused:
        await api.list("configmaps", **query)
    return refused.value


@everywhere
async def test_first_state_of_the_history_can_be_listed(opened: Opener) -> None:
    async with opened() as api:
        old, _ = await two_versions(api)
        api.clock.advance(WATCH_HISTORY - 1)
        listed = await api.list("configmaps", resourceVersion=old, resourceVersionMatch="Exact")
        assert listed["items"][0]["data"] == {"text": "old"}
        assert listed["metadata"]["resourceVersion"] == old


@everywhere
@pytest.mark.parametrize(
    "query",
    [{"resourceVersionMatch": "Exact"}, {"resourceVersionMatch": "Exact", "limit": 1}, {"limit": 1}],
    ids=["exact", "exact with a limit", "a limit alone"],
)
async def test_version_before_the_history_is_expired(opened: Opener, query: dict[str, object]) -> None:
    async with opened() as api:
        old, new = await two_versions(api)
        api.clock.advance(WATCH_HISTORY + 1)
        refused = await refusal(api, resourceVersion=old, **query)
        assert refused.reason == "Expired"
        assert refused.message == "The resourceVersion for the provided list is too old."
        assert refused.fresh == ""
        assert names(await api.list("configmaps", resourceVersion=new, **query)) == ["a"]


@everywhere
@pytest.mark.parametrize(
    "query",
    [{}, {"resourceVersionMatch": "NotOlderThan"}, {"resourceVersionMatch": "NotOlderThan", "limit": 1}],
    ids=["unset", "not older than", "not older than with a limit"],
)
async def test_not_older_than_an_old_version_returns_the_newest(
    opened: Opener, query: dict[str, object]
) -> None:
    async with opened() as api:
        old, new = await two_versions(api)
        api.clock.advance(10 * WATCH_HISTORY)
        listed = await api.list("configmaps", resourceVersion=old, **query)
        assert listed["items"][0]["data"] == {"text": "new"}
        assert int(listed["metadata"]["resourceVersion"]) >= int(new)


@everywhere
async def test_the_newest_version_never_expires(opened: Opener) -> None:
    async with opened() as api:
        _, new = await two_versions(api)
        newest = (await api.list("configmaps"))["metadata"]["resourceVersion"]
        assert newest == new
        api.clock.advance(10 * WATCH_HISTORY)
        listed = await api.list("configmaps", resourceVersion=newest, resourceVersionMatch="Exact")
        assert names(listed) == ["a"]


@everywhere
async def test_changes_of_another_kind_expire_versions_too(opened: Opener) -> None:
    async with opened() as api:
        old = (await api.create("configmaps", config_map("a")))["metadata"]["resourceVersion"]
        await api.create("secrets", {"metadata": {"name": "s"}})
        api.clock.advance(WATCH_HISTORY + 1)
        assert (await refusal(api, resourceVersion=old, resourceVersionMatch="Exact")).reason == "Expired"


@everywhere
async def test_get_accepts_any_version_that_was_reached(opened: Opener) -> None:
    async with opened() as api:
        old, _ = await two_versions(api)
        api.clock.advance(10 * WATCH_HISTORY)
        assert (await api.get("configmaps", "a", resourceVersion=old))["data"] == {"text": "new"}
        assert (await api.get("configmaps", "a", resourceVersion=0))["data"] == {"text": "new"}


@pytest.mark.parametrize(("profile", "seconds"), [(DOCUMENTS, 300), (V1_25, 600)])
async def test_profile_has_a_length_of_the_history(profile: str, seconds: int) -> None:
    async with served(profile=profile) as api:
        old = (await api.create("configmaps", config_map("a")))["metadata"]["resourceVersion"]
        await api.delete("configmaps", "a")
        query = {"resourceVersion": old, "resourceVersionMatch": "Exact"}
        api.clock.advance(seconds - 1)
        assert names((await api.ask("GET", api.path("configmaps"), **query)).expect(200)) == ["a"]
        api.clock.advance(2)
        (await api.ask("GET", api.path("configmaps"), **query)).expect(410)


async def test_length_of_the_history_is_configurable() -> None:
    async with served(watch_history=10.0) as api:
        old = (await api.create("configmaps", config_map("a")))["metadata"]["resourceVersion"]
        await api.delete("configmaps", "a")
        path = api.path("configmaps")
        query = {"resourceVersion": old, "resourceVersionMatch": "Exact"}
        api.clock.advance(9)
        assert names((await api.ask("GET", path, **query)).expect(200)) == ["a"]
        api.clock.advance(2)
        status = (await api.ask("GET", path, **query)).expect(410)
        assert status["reason"] == "Expired"
        assert status["metadata"] == {}
