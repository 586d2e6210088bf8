"""Writes interrupted at each of their steps: every write completes exactly once and leaves nothing behind.

A write that waits continues in the task of its caller. These tests count the steps of all tasks and interrupt at one
after the other: they cancel the caller, retire the actor, crash it, or let a commit fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.access.remote.deadlines import Deadlines
from rewound.actors.access.remote.slots import Slots
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.admission.timings import ADMIT
from rewound.actors.errors import NoSuchResource, NotFound, RequestError, Resource
from rewound.actors.identity import User
from rewound.actors.messages import Command, Create, Delete, Object, Outcome, Patch, Written
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.store.committer import Committer
from rewound.journal.batch import Batch
from rewound.journal.errors import StorageFull
from rewound.journal.log import OnPut
from tests.actors.object_store import Refused, Store, open_store

CONFIG_MAPS = Resource("", "configmaps")
WRITES = (rule(CREATE, UPDATE, DELETE, of=(CONFIG_MAPS,)),)
QUICK = "quick"  # writes of this field manager need no review


class Review(AsyncPlugin):
    """Takes a second; one write at a time is reviewed, and each only a limited number of times."""

    name = "Review"

    def __init__(self, *, mutating: bool, most: float = inf) -> None:
        self.mutates, self.validates = (WRITES, ()) if mutating else ((), WRITES)
        self.slots = Slots(1, Deadlines())
        self._most = most
        self._asked: Counter[str] = Counter()

    def concerns(self, request: AdmissionRequest) -> bool:
        assert request.context is not None
        if request.context.manager == QUICK or self._asked[request.context.uid] >= self._most:
            return False
        self._asked[request.context.uid] += 1
        return True

    async def admit(self, request: AdmissionRequest) -> Admitted:
        if not self.slots.take_nowait():
            await self.slots.take(inf)
        try:
            await trio.sleep(1)
        finally:
            self.slots.release()
        return Admitted(warnings=("reviewed",))


class Reserving(Plugin):
    """Adds a callback to every request, and records its calls."""

    name = "Reserving"
    mutates = WRITES

    def __init__(self) -> None:
        self.results: list[list[bool]] = []

    def mutate(self, request: AdmissionRequest) -> Object | None:
        results: list[bool] = []
        self.results.append(results)
        request.callbacks += (results.append,)
        return None


class AtStep(trio.abc.Instrument):
    """Calls a function after this many steps of all tasks."""

    def __init__(self, count: int, interrupt: Callable[[], None]) -> None:
        self._left, self._interrupt = count, interrupt

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._interrupt()

    @property
    def has_happened(self) -> bool:
        return self._left <= 0


@contextmanager
def interrupting(count: int, interrupt: Callable[[], None]) -> Iterator[AtStep]:
    instrument = AtStep(count, interrupt)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield instrument
    finally:
        trio.lowlevel.remove_instrument(instrument)


class Interrupted:
    """A store with reviews, and its invariants while no write is in progress."""

    def __init__(self, store: Store, reserving: Reserving, *reviews: Review) -> None:
        self.store, self.reserving, self.reviews = store, reserving, reviews
        self.definition = store.definition("configmaps")
        self.actor = store.directory.actor(self.definition)

    async def ask(self, command: Command) -> Any:
        try:
            return await self.store.directory.ask_served(self.definition, command)
        except Exception as error:
            return error

    def command(self, kind: str, name: str, key: str) -> Command:
        context = self.store.write_contexts.new(User("u"), "m")
        if kind.startswith("large"):
            context = context._replace(large=True)
        if kind.endswith("create"):
            sent = {"metadata": {"name": f"{name}-{key}"}, "data": {key: "1"}}
            return Create("v1", "default", self.definition.schema.decode_object(sent).object, context)
        return Patch("v1", "default", name, "merge", {"data": {key: "1"}}, context)

    async def stored(self, name: str) -> set[str]:
        listed = (await self.store.list("configmaps"))["items"]
        return {
            key for one in listed if one["metadata"]["name"].startswith(name) for key in one.get("data", {})
        }

    def check(self) -> None:
        actor, store = self.actor, self.store
        turns = actor._waiting.turns
        assert not actor._waiting and not actor._pending
        assert not turns._lines and not turns._closed and not turns._waiting
        assert store.calls.statistics().running == 0
        assert store.directory.large_work.statistics().waiting == 0
        assert not store.directory.large_work._running and not store.directory.large_work._commands
        assert all(one.slots.idle for one in self.reviews)
        assert {len(results) for results in self.reserving.results} <= {1}
        self.reserving.results.clear()


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the work of threads in the event loop: the steps of a thread could not be counted."""

    async def run_sync(work: Callable[..., Any], *arguments: Any, limiter: object) -> Any:
        await trio.lowlevel.checkpoint()
        try:
            return work(*arguments)
        finally:
            await trio.lowlevel.cancel_shielded_checkpoint()

    monkeypatch.setattr("trio.to_thread.run_sync", run_sync)
    monkeypatch.setattr("trio.from_thread.run_sync", lambda call, *arguments: call(*arguments))


INTERRUPTIONS = ("cancel", "retire", "crash", "full disk", "definitions")
MOST_STEPS = 400


@pytest.mark.parametrize("how", INTERRUPTIONS)
@pytest.mark.parametrize(
    ("kind", "most"), [("create", inf), ("patch", inf), ("patch", 1), ("large patch", inf)]
)
async def test_interruption_at_each_step(
    kind: str,
    most: float,
    how: str,
    autojump_clock: MockClock,
    no_thread: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three writes, of one object if they are patches; the first one's caller is cancelled."""
    monkeypatch.setattr("rewound.actors.runtime.supervisor.logger.exception", lambda *_: None)
    reviews = Review(mutating=True, most=most), Review(mutating=False, most=most)
    reserving = Reserving()
    async with open_store(reviews[0], reserving, reviews[1]) as store:
        run = Interrupted(store, reserving, *reviews)
        write_batch = store.journal.write
        for step in range(1, MOST_STEPS, 3 if kind == "large patch" else 1):
            name = f"n{step}"
            await _create(run, name)
            outcomes: dict[str, Any] = {}
            scope = trio.CancelScope()

            async def write(key: str, name: str, outcomes: dict[str, Any]) -> None:
                outcomes[key] = await run.ask(run.command(kind, name, key))

            async def write_first(name: str, outcomes: dict[str, Any], scope: trio.CancelScope) -> None:
                with scope:
                    await write("a", name, outcomes)

            def fail_once(batch: Batch, on_put: OnPut | None = None) -> None:
                store.journal.write = write_batch  # type: ignore[method-assign]
                raise StorageFull(Path("data"), "No space left on device")

            def interrupt(scope: trio.CancelScope = scope) -> None:
                stored_type = store.catalog.stored_type(run.definition.type_name)
                assert stored_type is not None
                if how == "cancel":
                    scope.cancel()
                elif how == "retire":
                    run.actor.retire()
                    run.actor.update_definitions(stored_type)
                elif how == "crash":
                    run.actor._end_run(ValueError("crash"))
                elif how == "definitions":
                    run.actor.update_definitions(stored_type)
                else:
                    store.journal.write = fail_once  # type: ignore[method-assign]

            with interrupting(step, interrupt) as interrupted:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(write_first, name, outcomes, scope)
                    nursery.start_soon(write, "b", name, outcomes)
                    nursery.start_soon(write, "c", name, outcomes)
            happened = interrupted.has_happened
            store.journal.write = write_batch  # type: ignore[method-assign]
            await trio.sleep(20)
            run.check()
            known = {key for key, outcome in outcomes.items() if isinstance(outcome, Written)}
            refused = {key for key, outcome in outcomes.items() if isinstance(outcome, Exception)}
            assert all(isinstance(outcomes[key], RequestError) for key in refused)
            found = await run.stored(name)
            assert known <= found and not refused & found, step
            if how in ("crash", "definitions"):
                assert known == {"a", "b", "c"}, (step, outcomes)
            if how == "cancel":
                assert {"b", "c"} <= known
            for key in known:
                assert outcomes[key].warnings == ("reviewed",)
            if not happened:
                break
        else:
            raise AssertionError("more steps than expected")


@contextmanager
def failing_submit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The next write that is submitted crashes its actor."""
    submit = Committer.submit

    def broken_submit(*_: object) -> None:
        monkeypatch.setattr(Committer, "submit", submit)
        raise Broken

    monkeypatch.setattr(Committer, "submit", broken_submit)
    monkeypatch.setattr("rewound.actors.runtime.supervisor.logger.exception", lambda *_: None)
    yield


class Broken(Exception):
    pass


async def _start(nursery: trio.Nursery, run: Interrupted, name: str, keys: str) -> dict[str, Any]:
    """Patches of one object, in this order."""
    outcomes: dict[str, Any] = {}

    async def write(key: str) -> None:
        outcomes[key] = await run.ask(run.command("patch", name, key))

    for key in keys:
        nursery.start_soon(write, key)
        await wait_all_tasks_blocked()
    return outcomes


async def test_crash_while_others_wait_for_their_turns(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are decided on the stored state, not on what the crashed write would have stored."""
    review, reserving = Review(mutating=True), Reserving()
    async with open_store(review, reserving) as store:
        run = Interrupted(store, reserving, review)
        await _create(run, "n")
        async with trio.open_nursery() as nursery:
            outcomes = await _start(nursery, run, "n", "abcd")
            await trio.sleep(1.5)  # the first is stored; the others are decided again, in turn
            assert list(outcomes) == ["a"]
            with failing_submit(monkeypatch):
                await trio.sleep(60)
        assert [key for key, outcome in outcomes.items() if isinstance(outcome, Broken)] == ["b"]
        assert await run.stored("n") == {"a", "c", "d"}
        assert store.supervisor.statistics()["actor configmaps"].restarts == 1
        run.check()


async def test_write_that_has_waited_is_not_decided_while_the_committer_writes_alone(
    autojump_clock: MockClock,
) -> None:
    review, reserving = Review(mutating=False), Reserving()
    async with open_store(review, reserving) as store, trio.open_nursery() as nursery:
        run = Interrupted(store, reserving, review)
        await _create(run, "n")
        outcomes = await _start(nursery, run, "n", "a")
        pause = store.committer.pause = trio.Event()
        await trio.sleep(5)
        assert not run.actor._pending and not outcomes
        store.committer.pause = None
        pause.set()
        await trio.sleep(5)
        assert isinstance(outcomes["a"], Written)
        run.check()


async def test_write_of_the_server_is_refused_before_its_task_begins(autojump_clock: MockClock) -> None:
    review, reserving = Review(mutating=True), Reserving()
    async with open_store(review, reserving) as store:
        run = Interrupted(store, reserving, review)
        await _create(run, "n")
        errors: list[Outcome | BaseException] = []
        assert run.actor.write_now(run.command("patch", "n", "a"), errors.append)
        run.actor.retire()
        await wait_all_tasks_blocked()
        assert [type(error) for error in errors] == [NoSuchResource]


@pytest.mark.parametrize("how", ["cancel", "retire"])
async def test_delete_of_a_collection_is_interrupted_at_each_step(
    how: str, autojump_clock: MockClock, no_thread: None
) -> None:
    """Large objects, so that each delete waits for the thread; all are sent before the first reply."""
    reserving = Reserving()
    async with open_store(reserving) as store:
        run = Interrupted(store, reserving)
        stored_type = store.catalog.stored_type(run.definition.type_name)
        assert stored_type is not None
        for step in range(1, MOST_STEPS):
            for key in "abc":
                with suppress(Refused):
                    await store.create(
                        "configmaps", {"metadata": {"name": key}, "data": {key: "x" * LARGE_BYTES}}
                    )
            scope = trio.CancelScope()

            def interrupt(scope: trio.CancelScope = scope) -> None:
                if how == "cancel":
                    scope.cancel()
                else:
                    run.actor.retire()
                    run.actor.update_definitions(stored_type)

            with interrupting(step, interrupt) as interrupted:
                with scope, suppress(NoSuchResource):
                    await store.delete_collection("configmaps")
                happened = interrupted.has_happened
            await wait_all_tasks_blocked()
            run.check()
            if not happened:
                break
        assert await run.stored("") == set()


async def test_version_0_of_a_large_object_is_no_precondition(autojump_clock: MockClock) -> None:
    async with open_store() as store:
        large = {"metadata": {"name": "a"}, "data": {"x": "x" * LARGE_BYTES}}
        await store.create("configmaps", large)
        small = {"metadata": {"name": "a", "resourceVersion": "0"}, "data": {"x": "1"}}
        assert (await store.replace("configmaps", small))["data"] == {"x": "1"}


async def test_restarted_write_does_not_count_as_refused(autojump_clock: MockClock) -> None:
    review, reserving = Review(mutating=True), Reserving()
    async with open_store(review, reserving) as store:
        run = Interrupted(store, reserving, review)
        await _create(run, "n")
        async with trio.open_nursery() as nursery:
            await _start(nursery, run, "n", "abcd")
            await trio.sleep(2.5)
            await _start(nursery, run, "n", "ef")  # these wait for their turns before they ask
        timings = store.directory._context.admission.timings
        assert sum(timings.plugin(review.name, ADMIT, UPDATE).refused.counts()) == 0


async def test_restarted_write_without_a_review_takes_no_turn(
    autojump_clock: MockClock,
) -> None:
    """Its object is deleted when its review ends: it fails at once, while another write has its turn."""
    review, reserving = Review(mutating=True), Reserving()
    async with open_store(review, reserving) as store:
        run = Interrupted(store, reserving, review)
        await _create(run, "n")
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            outcomes = await _start(nursery, run, "n", "abc")
            await trio.sleep(2.5)  # the second write has started again, and with it the turns
            assert list(outcomes) == ["a"]
            context = store.write_contexts.new(User("u"), QUICK)
            await run.ask(Delete("v1", "default", "n", context))
            await trio.sleep(0.6)
            assert list(outcomes) == ["a", "c"] and isinstance(outcomes["c"], NotFound)
        assert isinstance(outcomes["b"], NotFound)
        assert trio.current_time() - began == pytest.approx(4)
        run.check()


@pytest.mark.parametrize("how", ["retire", "crash", "definitions", "time"])
async def test_write_of_the_server_is_interrupted_at_each_step(
    how: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls back exactly once, and reports whether it is stored."""
    monkeypatch.setattr("rewound.actors.runtime.supervisor.logger.exception", lambda *_: None)
    review, reserving = Review(mutating=True), Reserving()
    async with open_store(review, reserving) as store:
        run = Interrupted(store, reserving, review)
        stored_type = store.catalog.stored_type(run.definition.type_name)
        assert stored_type is not None
        for step in range(1, MOST_STEPS):
            await _create(run, name := f"n{step}")
            replies: list[Outcome | BaseException] = []

            def interrupt() -> None:
                if how == "retire":
                    run.actor.retire()
                elif how == "crash":
                    run.actor._end_run(ValueError("crash"))
                run.actor.update_definitions(stored_type)

            command = run.command("patch", name, "s")
            assert isinstance(command, Patch)
            if how == "time":
                until = trio.current_time() + step / 8
                command = replace(command, context=command.context._replace(deadline=until))
            with interrupting(step, interrupt if how != "time" else lambda: None) as interrupted:
                async with trio.open_nursery() as nursery:
                    await _start(nursery, run, name, "a")
                    taken = run.actor.write_now(command, replies.append)
                happened = interrupted.has_happened
            await trio.sleep(20)
            assert len(replies) == taken
            reply = replies[0] if taken else Broken()  # not accepted: the actor has crashed
            assert not taken or isinstance(reply, RequestError | Written)
            assert ("s" in await run.stored(name)) == isinstance(reply, Written)
            run.check()
            if not happened and (how != "time" or isinstance(reply, Written)):
                break


class Annotating(AsyncPlugin):
    name = "Annotating"
    validates = WRITES
    annotates = True

    async def admit(self, request: AdmissionRequest) -> Admitted:
        await trio.sleep(1)
        return Admitted(annotations=(("seen", "1"),))


class Doubling(Plugin):
    """Adds one owner twice."""

    name = "Doubling"
    mutates = (rule(UPDATE, of=(CONFIG_MAPS,)),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        assert request.object is not None
        owner = {"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "u"}
        metadata = {**request.object["metadata"], "ownerReferences": [owner, owner]}
        return {**request.object, "metadata": metadata}


async def test_object_that_is_prepared_again_warns_once(autojump_clock: MockClock) -> None:
    async with open_store(Doubling(), Annotating()) as store:
        run = Interrupted(store, Reserving())
        await _create(run, "n")
        outcome = await run.ask(run.command("patch", "n", "a"))
        assert len(outcome.warnings) == 1
        metadata = (await store.get("configmaps", "n"))["metadata"]
        assert metadata["annotations"] == {"seen": "1"} and len(metadata["ownerReferences"]) == 1


async def _create(run: Interrupted, name: str) -> None:
    context = run.store.write_contexts.new("u", QUICK)
    new = run.definition.schema.decode_object({"metadata": {"name": name}}).object
    await run.store.directory.ask_served(run.definition, Create("v1", "default", new, context))
