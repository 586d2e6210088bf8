"""A continue token is valid as long as the watch history; its 410 has a token for an inconsistent continuation."""

from __future__ import annotations

import pytest

from tests.actors.object_store import WATCH_HISTORY, Refused, Verbs
from tests.gateway.api import Opener, config_map, everywhere, labelled, names, served


async def first_page(api: Verbs, count: int = 5, limit: int = 2) -> str:
    for number in range(count):
        await api.create("configmaps", config_map(f"c{number}"))
    return str((await api.list("configmaps", limit=limit))["metadata"]["continue"])


async def expired(api: Verbs, token: str, **query: object) -> Refused:
    with pytest.raises(Refused) as refused:
        await api.list("configmaps", **{"continue": token, **query})
    assert refused.value.reason == "Expired"
    return refused.value


@everywhere
async def test_token_expires_with_the_watch_history(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api)
        api.clock.advance(WATCH_HISTORY - 1)
        assert names(await api.list("configmaps", **{"continue": token})) == ["c2", "c3", "c4"]
        api.clock.advance(2)
        refused = await expired(api, token)
        assert refused.message.startswith("The provided continue parameter is too old")


@everywhere
async def test_inconsistent_pages_count_what_remains(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api, count=6)
        await api.create("configmaps", config_map("c0a"))  # before the position: not counted
        await api.create("configmaps", config_map("c5a"))
        api.clock.advance(WATCH_HISTORY + 1)
        counts, more = [], (await expired(api, token)).fresh
        while more:
            metadata = (await api.list("configmaps", limit=2, **{"continue": more}))["metadata"]
            counts.append(metadata.get("remainingItemCount"))
            more = metadata.get("continue", "")
        assert counts == [3, 1, None]
        fresh = (await expired(api, token)).fresh
        selected = await api.list("configmaps", limit=2, labelSelector="!x", **{"continue": fresh})
        assert "remainingItemCount" not in selected["metadata"]


@everywhere
async def test_inconsistent_token_continues_to_the_end(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api)
        await api.create("configmaps", config_map("c0a"))
        await api.create("configmaps", config_map("c2a"))
        await api.delete("configmaps", "c3")
        api.clock.advance(WATCH_HISTORY + 1)
        fresh = (await expired(api, token)).fresh
        seen = []
        versions = set()
        while fresh:
            page = await api.list("configmaps", limit=1, **{"continue": fresh})
            seen += names(page)
            versions.add(page["metadata"]["resourceVersion"])
            fresh = page["metadata"].get("continue", "")
        # Objects before the continue position are not listed; changes after it are.
        assert seen == ["c2", "c2a", "c4"]
        assert len(versions) == 1


@everywhere
async def test_rest_of_an_inconsistent_list_is_one_snapshot(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api)
        api.clock.advance(WATCH_HISTORY + 1)
        fresh = (await expired(api, token)).fresh
        page = await api.list("configmaps", limit=1, **{"continue": fresh})
        await api.create("configmaps", config_map("c9"))
        rest = await api.list("configmaps", **{"continue": page["metadata"]["continue"]})
        assert names(page) + names(rest) == ["c2", "c3", "c4"]
        assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]


@everywhere
async def test_inconsistent_token_is_valid_for_a_full_history(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api)
        api.clock.advance(WATCH_HISTORY + 1)
        page = await api.list("configmaps", limit=1, **{"continue": (await expired(api, token)).fresh})
        api.clock.advance(WATCH_HISTORY - 1)
        again = page["metadata"]["continue"]
        assert names(await api.list("configmaps", **{"continue": again})) == ["c3", "c4"]
        api.clock.advance(2)
        await expired(api, again)


@everywhere
async def test_later_pages_do_not_extend_the_validity(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api)
        api.clock.advance(WATCH_HISTORY - 10)
        second = await api.list("configmaps", limit=1, **{"continue": token})
        api.clock.advance(11)
        await expired(api, second["metadata"]["continue"])


@everywhere
async def test_list_at_an_old_version_expires_with_that_version(opened: Opener) -> None:
    async with opened() as api:
        await first_page(api)
        listed = await api.list("configmaps")
        api.clock.advance(WATCH_HISTORY - 10)
        await api.create("configmaps", config_map("new"))
        page = await api.list("configmaps", limit=1, resourceVersion=listed["metadata"]["resourceVersion"])
        token = page["metadata"]["continue"]
        api.clock.advance(5)
        await api.list("configmaps", **{"continue": token})
        await api.create("configmaps", config_map("newer"))
        api.clock.advance(WATCH_HISTORY)
        await expired(api, token)


@everywhere
async def test_selectors_apply_to_the_rest(opened: Opener) -> None:
    async with opened() as api:
        for number in range(6):
            await api.create("configmaps", labelled(f"c{number}", side="left" if number % 2 else "right"))
        page = await api.list("configmaps", limit=1, labelSelector="side=left")
        api.clock.advance(WATCH_HISTORY + 1)
        refused = await expired(api, page["metadata"]["continue"], labelSelector="side=left")
        rest = await api.list("configmaps", labelSelector="side=left", **{"continue": refused.fresh})
        assert names(rest) == ["c3", "c5"]


@everywhere
async def test_tokens_are_valid_after_a_restart(opened: Opener) -> None:
    async with opened() as api:
        token = await first_page(api)
        await api.delete("configmaps", "c3")
        await api.restart()
        assert names(await api.list("configmaps", **{"continue": token})) == ["c2", "c3", "c4"]
        await api.restart()
        api.clock.advance(WATCH_HISTORY + 1)
        await expired(api, token)


async def test_status_of_an_expired_token_is_complete() -> None:
    async with served() as api:
        token = await first_page(api)
        api.clock.advance(WATCH_HISTORY + 1)
        response = await api.ask("GET", api.path("configmaps"), **{"continue": token, "limit": 2})
        status = response.expect(410)
        assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", 410)
        assert status["reason"] == "Expired"
        assert status["metadata"]["continue"] != token
        rest = await api.ask("GET", api.path("configmaps"), **{"continue": status["metadata"]["continue"]})
        assert names(rest.expect(200)) == ["c2", "c3", "c4"]
