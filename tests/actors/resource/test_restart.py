"""An actor that crashes is restarted and continues from the journal; every command gets a reply."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.messages import Create
from rewound.actors.resource.actor import ResourceActor
from rewound.actors.runtime.supervisor import RECOVERED_AFTER
from rewound.actors.store.committer import Committer
from tests.actors.object_store import Refused, Store, open_store


class Broken(Exception):
    pass


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    """Make the next batch of a type crash, before or after it is decided."""
    handle, submit = ResourceActor.handle, Committer.submit

    def break_next(where: str) -> None:
        def broken_handle(actor: ResourceActor, envelopes: list) -> None:
            monkeypatch.setattr(ResourceActor, "handle", handle)
            raise Broken("before")

        def broken_submit(*_: object) -> None:
            monkeypatch.setattr(Committer, "submit", submit)
            raise Broken("after")

        if where == "before":
            monkeypatch.setattr(ResourceActor, "handle", broken_handle)
        else:
            monkeypatch.setattr(Committer, "submit", broken_submit)

    return break_next


def config_map(name: str) -> dict:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize("where", ["before", "after"])
async def test_restarted_actor_continues_from_the_journal(
    crash, where: str, autojump_clock: MockClock
) -> None:
    async with open_store() as store:
        kept = await store.create("configmaps", config_map("kept"))
        crash(where)
        with pytest.raises(Broken):
            await store.create("configmaps", config_map("lost"))
        with pytest.raises(Refused) as refused:
            await store.create("configmaps", config_map("kept"))
        assert refused.value.reason == "AlreadyExists"
        again = await store.create("configmaps", config_map("lost"))
        assert int(again["metadata"]["resourceVersion"]) > int(kept["metadata"]["resourceVersion"])
        assert [item["metadata"]["name"] for item in (await store.list("configmaps"))["items"]] == [
            "kept",
            "lost",
        ]
        assert store.supervisor.statistics()["actor configmaps"].restarts == 1


async def test_reservation_of_a_lost_write_is_released(crash, autojump_clock: MockClock) -> None:
    async with open_store() as store:
        service = {"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}}
        await store.create("services", {**service, "spec": {"ports": [{"port": 80}]}}, dryRun="All")
        crash("after")
        with pytest.raises(Broken):
            await store.create("services", service)
        assert (await store.create("services", service))["spec"]["clusterIP"] == "10.0.0.7"


async def test_every_command_of_the_crashed_batch_gets_an_error(crash, autojump_clock: MockClock) -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map("first"))
        crash("before")
        errors: list[type[Exception]] = []

        async def create(number: int) -> None:
            try:
                await store.create("configmaps", config_map(f"c{number}"))
            except Exception as error:
                errors.append(type(error))

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(create, number)
        assert errors == [Broken] * 5


async def test_commands_that_arrive_meanwhile_wait_in_the_mailbox(crash, autojump_clock: MockClock) -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map("first"))
        crash("before")
        with pytest.raises(Broken):
            await store.create("configmaps", config_map("lost"))
        # The pause before the restart has started; this command is sent during it.
        await store.create("configmaps", config_map("waited"))
        assert store.supervisor.failing() == ["actor configmaps"]
        await trio.sleep(RECOVERED_AFTER)
        assert store.supervisor.failing() == []


async def test_crash_does_not_affect_other_kinds(crash, autojump_clock: MockClock) -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map("first"))
        await store.create("secrets", config_map("first"))
        crash("before")
        with pytest.raises(Broken):
            await store.create("configmaps", config_map("lost"))
        before = trio.current_time()
        await store.create("secrets", config_map("second"))
        assert trio.current_time() == before


async def test_restart_waits_for_commits_in_progress(crash, autojump_clock: MockClock) -> None:
    """A restarted actor must not decide as if a commit in progress did not exist."""
    async with open_store() as store:
        held = HeldCommitter(store)
        replies: list[str] = []

        async def create(name: str) -> None:
            try:
                await store.create("configmaps", config_map(name))
                replies.append(f"{name} made")
            except (Refused, Broken) as error:
                replies.append(f"{name} {getattr(error, 'reason', 'Broken')}")

        async with trio.open_nursery() as nursery:
            held.hold()
            nursery.start_soon(create, "a")
            await wait_all_tasks_blocked()
            crash("before")
            nursery.start_soon(create, "b")
            await wait_all_tasks_blocked()
            assert replies == ["b Broken"]
            nursery.start_soon(create, "a")
            await trio.sleep(60)
            assert replies == ["b Broken"]
            held.release()
        assert sorted(replies[1:]) == ["a AlreadyExists", "a made"]


class HeldCommitter:
    """Makes the committer hold submitted proposals until a test releases them."""

    def __init__(self, store: Store) -> None:
        self._committer = store.committer
        self._submit = store.committer.submit
        self._waiting: list[tuple] = []

    def hold(self) -> None:
        self._committer.submit = lambda *call: self._waiting.append(call)  # type: ignore[method-assign]

    def release(self) -> None:
        self._committer.submit = self._submit  # type: ignore[method-assign]
        for call in self._waiting:
            self._submit(*call)


async def test_bug_in_one_command_does_not_affect_the_others_of_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_store() as store:
        definition = store.definition("configmaps")
        good = Create("v1", "default", config_map("good"), store.write_contexts.new("u", "m"))
        bad = Create("v1", "default", {"data": {}}, store.write_contexts.new("u", "m"))  # without metadata
        results: list[object] = []

        async def ask(command: Create) -> None:
            try:
                results.append(await store.directory.ask(definition, command))
            except KeyError as error:
                results.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, bad)
            nursery.start_soon(ask, good)
        assert {type(result).__name__ for result in results} == {"KeyError", "Written"}
        assert not store.supervisor.statistics()["actor configmaps"].restarts
