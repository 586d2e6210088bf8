"""Admission: mutating plugins, then completion by the server, then validating plugins.

The steps that concern one (resource, operation, subresource) are compiled into a `Chain` once, in the order in which
the plugins are listed; a write that concerns no plugin has an empty chain and no cost. The actor calls `admit` before
it prepares an object and `validate` after it has validated the object. Either returns early at an asynchronous step,
with the index of that step, and is called again to continue after it.

Most writes are in a namespace for which no plugin has anything to do at present: they need no request and no steps
(`admits_all`, then `count_validated`).

What is never stored, such as a TokenRequest, has no actor: `admit_ephemeral` and `validate_ephemeral` run its steps one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from time import perf_counter
from typing import NamedTuple, TypeVar

import trio

from actors.admission.plugin import Admitted, AsyncPlugin, Plugin, Rule
from actors.admission.request import CONNECT, AdmissionRequest
from actors.admission.timings import ADMIT, VALIDATE, Skipped, StepTiming, Timings
from actors.errors import WriteTimedOut
from actors.kinds.declaration.definition import Definition
from actors.messages import LONGEST_WRITE, Object

Change = Callable[[AdmissionRequest], Object | None]
T = TypeVar("T")


class Step(NamedTuple):
    """What one plugin does in a chain: `run`, or if that is None, the asynchronous step of `plugin`."""

    position: int  # among the changes, or among the checks
    run: Change | None  # a check returns None, too
    plugin: AsyncPlugin | None
    timing: StepTiming


class Chain:
    __slots__ = (
        "_asynchronous",
        "_completing",
        "_mutating",
        "_skipped_changes",
        "_skipped_checks",
        "_tests",
        "_waiting",
        "admit_timing",
        "annotates",
        "asynchronous",
        "changes",
        "checks",
        "repeated",
        "validate_timing",
    )

    def __init__(
        self,
        mutating: Sequence[Step] = (),
        completing: Sequence[Step] = (),
        checks: Sequence[Step] = (),
        repeated: Sequence[Change] = (),
        admit_timing: StepTiming | None = None,
        validate_timing: StepTiming | None = None,
        tests: Sequence[Callable[[str], bool]] | None = None,  # of all plugins; None if one has no test
        skipped_changes: Skipped | None = None,
        skipped_checks: Skipped | None = None,
    ) -> None:
        self._mutating, self._completing = tuple(mutating), tuple(completing)
        self.changes, self.checks = (*self._mutating, *self._completing), tuple(checks)
        self.repeated = tuple(repeated)  # run again when a write continues after an asynchronous step
        self.admit_timing = admit_timing or StepTiming()
        self.validate_timing = validate_timing or StepTiming()
        self._asynchronous = tuple(
            one.plugin for one in (*self.changes, *self.checks) if one.plugin is not None
        )
        self.asynchronous = bool(self._asynchronous)
        self._waiting = tuple(one.plugin for one in self.checks if one.plugin is not None)
        self.annotates = any(plugin.annotates for plugin in self._waiting)
        self._tests = None if tests is None else tuple(tests)
        self._skipped_changes = skipped_changes or Skipped()
        self._skipped_checks = skipped_checks or Skipped()

    def __bool__(self) -> bool:
        return bool(self.changes or self.checks)

    def admits_all(self, namespace: str) -> bool:
        """Whether no step has anything to do for a write in this namespace; if so, count the changes as passed."""
        if self._tests is None:
            return False
        for plugin in self._asynchronous:
            if not plugin.idle:
                return False
        for test in self._tests:
            if not test(namespace):
                return False
        self._skipped_changes.count += 1
        return True

    def count_validated(self) -> None:
        """Count the checks of a write as passed, after `admits_all`."""
        self._skipped_checks.count += 1

    def admit(self, request: AdmissionRequest, first: int = 0) -> int | None:
        """Change the object; returns the index of the asynchronous step that comes next, or None at the end.

        If a webhook changed the object, the mutating plugins run once more before the completions.
        """
        began = perf_counter()
        if not first:
            request.phase_began = began
        if self._completing or request.reinvocation is not None:
            return self._admit_in_rounds(request, first, began)
        steps = self._mutating[first:] if first else self._mutating
        return _run(steps, request, self.admit_timing, began, True)

    def _admit_in_rounds(self, request: AdmissionRequest, first: int, began: float) -> int | None:
        phase, mutations = self.admit_timing, len(self._mutating)
        if first <= mutations:
            index = _run(self._mutating[first:], request, phase, began, False)
            if index is not None:
                return index
            reinvocation = request.reinvocation
            if reinvocation is not None and reinvocation.due:
                request.reinvocation = replace(reinvocation, due=False, round=1)
                index = _run(self._mutating, request, phase, perf_counter(), False)
                if index is not None:
                    return index
            first = mutations
        return _run(self._completing[first - mutations :], request, phase, perf_counter(), True)

    def may_wait(self, request: AdmissionRequest) -> bool:
        """Whether a validating step may be asynchronous for this request."""
        for plugin in self._waiting:  # noqa: SIM110 - a generator would cost more than all else here
            if not plugin.idle and plugin.may_concern(request):
                return True
        return False

    def may_pause(self, request: AdmissionRequest) -> bool:
        """Whether any step may be asynchronous for this request."""
        plugins = (one.plugin for one in (*self.changes, *self.checks))
        return any(one is not None and not one.idle and one.may_concern(request) for one in plugins)

    def validate(self, request: AdmissionRequest, first: int = 0) -> int | None:
        """Like `admit`, for the validating steps."""
        began = perf_counter()
        if not first:
            request.phase_began = began
        steps = self.checks[first:] if first else self.checks
        return _run(steps, request, self.validate_timing, began, True)


def _run(
    steps: tuple[Step, ...], request: AdmissionRequest, phase: StepTiming, began: float, ends: bool
) -> int | None:
    """Run steps up to an asynchronous one that is concerned, and return its index; None at the end.

    `ends`: the phase ends with them.
    """
    for index, run, plugin, timing in steps:
        if run is None:
            assert plugin is not None
            if not plugin.idle and plugin.concerns(request):
                return index
            continue
        try:
            changed = run(request)
        except BaseException:
            record_refusal(request, began, timing, phase)
            raise
        now = perf_counter()
        timing.passed.add(now - began)
        began = now
        if changed is not None:
            request.object = changed
    if ends:
        phase.passed.add(began - request.phase_began)
    return None


def record_refusal(request: AdmissionRequest, began: float, step: StepTiming, phase: StepTiming) -> None:
    now = perf_counter()
    step.refused.add(now - began)
    phase.refused.add(now - request.phase_began)


EMPTY = Chain()


class Admission:
    def __init__(
        self, plugins: Sequence[Plugin] = (), *, in_thread: bool = False, timings: Timings | None = None
    ) -> None:
        self._plugins = tuple(plugins)
        self._in_thread = in_thread
        self.timings = timings or Timings()

    def for_threads(self) -> Admission:
        """The same plugins for a worker thread of trio: steps that are not safe there run in the event loop."""
        return Admission(self._plugins, in_thread=True, timings=self.timings.for_thread())

    def chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        """Compiles a chain with every call: callers cache it as long as the definition."""

        def concerned(rules: tuple[Rule, ...]) -> bool:
            return any(rule.covers(definition, operation, subresource) for rule in rules)

        mutating = [one for one in self._plugins if concerned(one.mutates)]
        completing = [one for one in self._plugins if concerned(one.completes)]
        checking = [one for one in self._plugins if concerned(one.validates)]

        def steps(plugins: list[Plugin], runs: list[Change], type_: str, first: int = 0) -> list[Step]:
            return [
                self._step(index, plugin, run, self.timings.plugin(plugin.name, type_, operation))
                for index, (plugin, run) in enumerate(zip(plugins, runs, strict=True), first)
            ]

        return Chain(
            steps(mutating, [one.mutate for one in mutating], ADMIT),
            steps(completing, [one.complete for one in completing], ADMIT, len(mutating)),
            steps(checking, [one.validate for one in checking], VALIDATE),
            [self._call(one, one.mutate) for one in mutating if one.repeats],
            self.timings.phase(ADMIT, operation),
            self.timings.phase(VALIDATE, operation),
            self._tests([*mutating, *completing, *checking], operation),
            self._skipped([*mutating, *completing], ADMIT, operation),
            self._skipped(checking, VALIDATE, operation),
        )

    def _skipped(self, plugins: list[Plugin], type_: str, operation: str) -> Skipped:
        names = [one.name for one in plugins if not isinstance(one, AsyncPlugin)]
        return self.timings.skipped(names, type_, operation)

    def _tests(self, plugins: list[Plugin], operation: str) -> list[Callable[[str], bool]] | None:
        """The tests of all plugins with synchronous steps; None if one has none, or in a thread."""
        if self._in_thread:
            return None
        found: list[Callable[[str], bool]] = []
        for plugin in plugins:
            if not isinstance(plugin, AsyncPlugin):
                test = plugin.admits_all(operation)
                if test is None:
                    return None
                found.append(test)
        return found

    def _step(self, index: int, plugin: Plugin, run: Change, timing: StepTiming) -> Step:
        if isinstance(plugin, AsyncPlugin):
            return Step(index, None, plugin, timing)
        return Step(index, self._call(plugin, run), None, timing)

    def _call(self, plugin: Plugin, run: Change) -> Change:
        if self._in_thread and not plugin.thread_safe:
            return partial(_run_in_event_loop, run)
        return run


def _run_in_event_loop(run: Callable[[AdmissionRequest], T], request: AdmissionRequest) -> T:
    return trio.from_thread.run_sync(run, request)


async def admit_ephemeral(chain: Chain, request: AdmissionRequest) -> None:
    """Run the mutating steps; `request.object` is their result. Raises what a plugin refuses with."""
    await _run_ephemeral(chain.admit, chain.changes, chain.admit_timing, request)


async def validate_ephemeral(chain: Chain, request: AdmissionRequest) -> None:
    await _run_ephemeral(chain.validate, chain.checks, chain.validate_timing, request)


async def _run_ephemeral(
    run: Callable[[AdmissionRequest, int], int | None],
    steps: tuple[Step, ...],
    phase: StepTiming,
    request: AdmissionRequest,
) -> None:
    following = run(request, 0)
    while following is not None:
        _, _, plugin, timing = steps[following]
        assert plugin is not None
        began = perf_counter()
        try:
            admitted = await _within_time(request, plugin)
        except Exception:
            record_refusal(request, began, timing, phase)
            raise
        timing.passed.add(perf_counter() - began)
        request.warnings += admitted.warnings
        if admitted.reinvocation is not None:
            request.reinvocation = admitted.reinvocation
        if admitted.object is not None:
            request.object = admitted.object
        following = run(request, following + 1)


async def _within_time(request: AdmissionRequest, plugin: AsyncPlugin) -> Admitted:
    """WriteTimedOut if the time of the request is over before. A connect lasts as long as its client wants."""
    context = request.context
    if request.operation == CONNECT or context is None:
        return await plugin.admit(request)
    if request.deadline == inf:
        request.deadline = min(context.deadline, trio.current_time() + LONGEST_WRITE)
    with trio.CancelScope(deadline=request.deadline):
        return await plugin.admit(request)
    raise WriteTimedOut(requested=request.deadline == context.deadline)
