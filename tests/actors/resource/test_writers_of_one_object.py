"""Many writers of one object whose admission waits: all succeed, in turn, and none starves."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import (
    Conflict,
    NoSuchResource,
    NotFound,
    Overloaded,
    RequestError,
    Resource,
    WriteTimedOut,
)
from rewound.actors.identity import User
from rewound.actors.messages import (
    LONGEST_WRITE,
    Command,
    Delete,
    DeleteOptions,
    Object,
    Outcome,
    Patch,
    Replace,
    WriteContext,
)
from rewound.actors.resource import write as resource_write
from tests.actors.object_store import Store, open_store

CONFIG_MAPS = Resource("", "configmaps")
SECONDS = 0.02
SPACE = SECONDS / 100  # between two writers whose order counts
WRITERS = 16
QUICK = "quick"  # writes of this field manager need no review


class Webhook(AsyncPlugin):
    """Reviews take 20 ms, or as long as `seconds` says for a field manager."""

    name = "Webhook"

    def __init__(self, *, mutating: bool = True) -> None:
        rules = (rule(CREATE, UPDATE, DELETE, of=(CONFIG_MAPS,)),)
        self.mutates, self.validates = (rules, ()) if mutating else ((), rules)
        self.reviewed: list[str] = []  # field managers
        self.seconds: Callable[[str], float] = lambda manager: SECONDS

    def concerns(self, request: AdmissionRequest) -> bool:
        return request.context is not None and request.context.manager != QUICK

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.context is not None
        self.reviewed.append(request.context.manager)
        await trio.sleep(self.seconds(request.context.manager))
        return Admitted()


def context(store: Store, manager: str = "m") -> WriteContext:
    return store.write_contexts.new(User("u"), manager)


def config_map(**data: str) -> Object:
    return {"metadata": {"name": "a"}, "data": data}


async def ask(store: Store, command: Command) -> Outcome:
    return await store.directory.ask_served(store.definition("configmaps"), command)


def merge(store: Store, key: str, manager: str = "m", **more: Any) -> Patch:
    return Patch("v1", "default", "a", "merge", {"data": {key: "1"}}, context(store, manager), **more)


async def data(store: Store) -> dict[str, str]:
    found: dict[str, str] = (await store.get("configmaps", "a")).get("data", {})
    return found


@pytest.mark.parametrize("mutating", [True, False])
async def test_every_writer_without_a_version_succeeds(mutating: bool, autojump_clock: MockClock) -> None:
    """About as many rounds as writers, and two reviews for each writer."""
    async with open_store(webhook := Webhook(mutating=mutating)) as store:
        await store.create("configmaps", {"metadata": {"name": "a", "annotations": {"k": "1"}}})
        webhook.reviewed.clear()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(WRITERS):
                nursery.start_soon(ask, store, _command(store, number))
        assert trio.current_time() - began == pytest.approx(WRITERS * SECONDS)
        assert len(webhook.reviewed) == 2 * WRITERS - 1
        metadata = (await store.get("configmaps", "a"))["metadata"]
        assert metadata["annotations"] == {"k": "1", **{f"k{number}": "1" for number in range(WRITERS)}}


def _command(store: Store, number: int) -> Command:
    """Each format of a patch in turn; every command adds one annotation."""
    name, format_ = f"k{number}", ("merge", "strategic", "apply", "json")[number % 4]
    metadata: Any = {"name": "a", "annotations": {name: "1"}}
    if format_ == "apply":
        sent: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    elif format_ == "json":
        sent = [{"op": "add", "path": f"/metadata/annotations/{name}", "value": "1"}]
    else:
        sent = {"metadata": metadata}
    manager = f"m{number}"
    return Patch("v1", "default", "a", format_, sent, context(store, manager), may_create=True)


async def test_replaces_and_deletes_without_a_version_take_turns_too(autojump_clock: MockClock) -> None:
    async with open_store(Webhook()) as store:
        await store.create("configmaps", config_map())
        outcomes: list[str] = []

        async def run(command: Command) -> None:
            try:
                await ask(store, command)
                outcomes.append(command.context.manager)
            except NotFound:
                outcomes.append("not found")

        async with trio.open_nursery() as nursery:
            for number in range(6):
                new = config_map(key=str(number))
                nursery.start_soon(run, Replace("v1", "default", "a", new, context(store, f"m{number}")))
                await trio.sleep(SPACE)
            nursery.start_soon(run, Delete("v1", "default", "a", context(store, "deletes")))
            await trio.sleep(SPACE)
            nursery.start_soon(run, merge(store, "x"))
        assert outcomes[:6] == [f"m{number}" for number in range(6)]
        assert sorted(outcomes[6:]) == ["deletes", "not found"]


async def test_turns_are_in_the_order_of_arrival(autojump_clock: MockClock) -> None:
    """Including writers that arrive while others wait, however long their reviews take."""
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        webhook.seconds = lambda manager: 0.001 if manager == "short" else SECONDS
        done: list[str] = []

        async def run(key: str, manager: str = "m") -> None:
            await ask(store, merge(store, key, manager))
            done.append(key)

        async with trio.open_nursery() as nursery:
            for key in "abc":
                nursery.start_soon(run, key)
                await trio.sleep(SPACE)
            await trio.sleep(SECONDS * 1.5)  # b has its turn, c waits
            nursery.start_soon(run, "d", "short")
            await trio.sleep(SPACE)
            nursery.start_soon(run, "e")
        assert done == list("abcde")


async def test_write_that_names_a_version_conflicts_at_once(autojump_clock: MockClock) -> None:
    async with open_store(Webhook()) as store:
        made = await store.create("configmaps", config_map())
        version = made["metadata"]["resourceVersion"]
        metadata = {"name": "a", "resourceVersion": version}
        versioned: list[Command] = [
            Replace("v1", "default", "a", {"metadata": metadata}, context(store)),
            Patch("v1", "default", "a", "merge", {"metadata": metadata}, context(store)),
            Delete("v1", "default", "a", context(store), DeleteOptions(resource_version=version)),
        ]
        conflicts: list[Command] = []

        async def refused(command: Command) -> None:
            with pytest.raises(Conflict):
                await ask(store, command)
            conflicts.append(command)

        async with trio.open_nursery() as nursery:
            for key in "abcd":
                nursery.start_soon(ask, store, merge(store, key))
            await trio.sleep(SPACE)
            for command in versioned:
                nursery.start_soon(refused, command)
            await trio.sleep(SECONDS * 1.5)
            assert len(conflicts) == 3
        assert set(await data(store)) == set("abcd")


async def test_review_that_hangs_delays_others_by_a_second_at_most(autojump_clock: MockClock) -> None:
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        ended: dict[str, float] = {}

        async def run(key: str) -> None:
            await ask(store, merge(store, key, key))
            ended[key] = trio.current_time()

        async with trio.open_nursery() as nursery:
            for key in ("first", "hangs", "other"):
                nursery.start_soon(run, key)
                await trio.sleep(SPACE)
            webhook.seconds = lambda manager: 10.0 if manager == "hangs" else SECONDS
        assert list(ended) == ["first", "other", "hangs"]
        turns = ended["other"] - ended["first"]
        assert turns == pytest.approx(SPACE + resource_write.TURN_SECONDS + SECONDS)
        assert set(await data(store)) == set(ended)


async def test_writers_without_reviews_do_not_starve_others(autojump_clock: MockClock) -> None:
    async with open_store(Webhook()) as store:
        await store.create("configmaps", config_map())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_without_review, store, SECONDS / 10, done := trio.Event())
            began = trio.current_time()
            await ask(store, merge(store, "slow"))
            assert trio.current_time() - began < 0.5
            done.set()


async def _write_without_review(store: Store, interval: float, done: trio.Event) -> None:
    while not done.is_set():
        value = str(trio.current_time())
        await ask(store, Patch("v1", "default", "a", "merge", {"data": {"q": value}}, context(store, QUICK)))
        await trio.sleep(interval)


async def test_dry_runs_do_not_wait_and_start_once(autojump_clock: MockClock) -> None:
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        webhook.reviewed.clear()
        async with trio.open_nursery() as nursery:
            for key in "abcd":
                nursery.start_soon(ask, store, merge(store, key))
            for key in "ef":
                nursery.start_soon(ask, store, merge(store, key, "dry", dry_run=True))
        assert webhook.reviewed.count("dry") == 2
        assert set(await data(store)) == set("abcd")


async def test_cancelled_writer_gives_up_its_place(autojump_clock: MockClock) -> None:
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        webhook.reviewed.clear()
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as waiting:
                for key in "ab":
                    nursery.start_soon(ask, store, merge(store, key))
                    await trio.sleep(SPACE)
                nursery.start_soon(_cancel_after, 1.5 * SECONDS, waiting)
                await ask(store, merge(store, "left", "left"))
        assert waiting.cancelled_caught
        assert set(await data(store)) == set("ab")
        assert webhook.reviewed.count("left") == 1


async def _cancel_after(seconds: float, scope: trio.CancelScope) -> None:
    await trio.sleep(seconds)
    scope.cancel()


async def test_number_of_waiting_writers_is_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_write, "MAX_WAITING", 3)
    async with open_store(Webhook()) as store:
        await store.create("configmaps", config_map())
        refused: list[Overloaded] = []

        async def run(key: str) -> None:
            try:
                await ask(store, merge(store, key))
            except Overloaded as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(run, str(number))
        assert len(refused) == 5  # the first succeeds at once, the second starts the queue
        assert len(await data(store)) == 5


async def test_writer_starts_again_until_its_deadline(autojump_clock: MockClock) -> None:
    """Each of its reviews takes longer than a turn, and other writers change the object meanwhile."""
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        webhook.reviewed.clear()
        webhook.seconds = lambda manager: 2.5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_without_review, store, 0.7, done := trio.Event())
            began = trio.current_time()
            with pytest.raises(WriteTimedOut, match="within requested timeout - context deadline exceeded"):
                await ask(store, merge(store, "x"))
            assert trio.current_time() - began == LONGEST_WRITE
            done.set()
        assert "x" not in await data(store)
        assert len(webhook.reviewed) == LONGEST_WRITE // 2.5 + 1


async def test_write_whose_time_is_over_is_never_stored(autojump_clock: MockClock) -> None:
    """A queue that was overtaken too often makes all writers wait, and these arrive too late for that."""
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        webhook.seconds = lambda manager: 0.1
        refused: set[str] = set()

        async def write_late(key: str) -> None:
            over = context(store, QUICK)._replace(deadline=trio.current_time(), caller=User("u"))
            try:
                await ask(store, Patch("v1", "default", "a", "merge", {"data": {key: "1"}}, over))
            except WriteTimedOut:
                refused.add(key)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, store, merge(store, "slow"))
            for number in range(40):  # it needs no time of its own while the line is open
                await write_late(f"late{number}")
                await trio.sleep(SECONDS)
        written = set(await data(store))
        assert refused and "slow" in written
        assert not refused & written


async def test_writers_that_wait_are_refused_when_their_kind_is_removed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer whose turn it is has just got its review: it is not stored, and no other writer gets the turn."""
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        actor = store.directory.actor(store.definition("configmaps"))
        refused: list[str] = []
        call = store.calls.call
        webhook.reviewed.clear()

        async def call_and_retire(plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
            admitted = await call(plugin, request)
            if (
                request.context is not None
                and request.context.manager == "b"
                and webhook.reviewed.count("b") == 2
            ):
                actor.retire()
            return admitted

        async def write(key: str) -> None:
            try:
                await actor.ask(merge(store, key, key))
            except NoSuchResource:
                refused.append(key)

        monkeypatch.setattr(store.calls, "call", call_and_retire)
        async with trio.open_nursery() as nursery:
            for key in "abc":
                nursery.start_soon(write, key)
                await trio.sleep(SPACE)
        assert webhook.reviewed == ["a", "b", "c", "b"]
        assert sorted(refused) == ["b", "c"]
        assert set(await data(store)) == {"a"}


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_remains_of_writers_that_end_in_any_way(seed: int, autojump_clock: MockClock) -> None:
    """They succeed, time out, disconnect, or lose their kind; refused writes are never stored."""
    source = random.Random(seed)
    async with open_store(webhook := Webhook()) as store:
        await store.create("configmaps", config_map())
        webhook.seconds = lambda manager: source.choice((SECONDS, 0.5, 1.5, 2 * LONGEST_WRITE))
        actor = store.directory.actor(store.definition("configmaps"))
        stored_type = store.catalog.stored_type(store.definition("configmaps").type_name)
        assert stored_type is not None
        succeeded: set[str] = set()
        refused: set[str] = set()

        async def write(key: str) -> None:
            await trio.sleep(source.uniform(0, 10))
            made = context(store, source.choice((QUICK, "m", "m")))._replace(
                deadline=trio.current_time() + source.choice((0, SECONDS, 5, inf)),
                caller=source.choice((None, User("u"))),
            )
            with trio.move_on_after(source.choice((SECONDS, 2, inf))):
                try:
                    await actor.ask(Patch("v1", "default", "a", "merge", {"data": {key: "1"}}, made))
                    succeeded.add(key)
                except RequestError:
                    refused.add(key)

        async with trio.open_nursery() as nursery:
            for number in range(80):
                nursery.start_soon(write, str(number))
            for _ in range(seed):
                await trio.sleep(source.uniform(0, 5))
                actor.retire()
                actor.update_definitions(stored_type)
        await trio.sleep(2 * LONGEST_WRITE)
        written = set(await data(store))
        assert succeeded and succeeded <= written
        assert refused and not refused & written
        turns = actor._waiting.turns
        assert not actor._waiting and not turns._lines and not turns._waiting
