"""Admission: mutating plugins, then completion by the server, then validating plugins.

The steps that concern one (resource, operation, subresource) are compiled into a `Chain` once, in the order in which
the plugins are listed. A write awaits `admit` before it prepares an object and `validate` after it has validated the
object. Both wait only if a plugin calls another process: `Asking` makes that call, and is notified of its outcome.

Most writes are in a namespace for which no plugin has anything to do at present: they need no request and no steps
(`admits_all`, then `count_validated`).

Ephemeral objects, such as a TokenRequest, have no actor: `admit_ephemeral` and `validate_ephemeral` run their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from time import perf_counter
from typing import Final, NamedTuple, Protocol, TypeVar

import trio

from rewound.actors.admission.plugin import UNCONCERNED, Admitted, AsyncPlugin, Plugin, Rule
from rewound.actors.admission.request import CONNECT, AdmissionRequest
from rewound.actors.admission.timings import ADMIT, VALIDATE, Skipped, StepTiming, Timings
from rewound.actors.errors import WriteTimedOut
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import LONGEST_WRITE, Object
from rewound.actors.runtime.outside import outside
from rewound.actors.runtime.time_limit import NeedsThread

Change = Callable[[AdmissionRequest], Object | None]
T = TypeVar("T")


class Retry(Exception):
    """Raised in place of a call to a plugin if the write must be decided again: no plugin has rejected it."""


class Asking(Protocol):
    """How a write calls plugins that it has to wait for."""

    @property
    def restarts_in_thread(self) -> bool:
        """Whether a step may raise NeedsThread; if not, plugins that could run without waiting are asked, too."""

    async def ask(self, plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
        """The outcome of the plugin's step. Raises its error if it rejects the write."""

    def answered(self, request: AdmissionRequest, admitted: Admitted) -> None:
        """Called when the outcome has been applied to the request; may raise an error that ends the write."""


class Step(NamedTuple):
    """The step of one plugin in a chain: `run`, or that of an asynchronous plugin."""

    run: Change  # a check returns None, too
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
        "admit_timing",
        "annotates",
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
        self.annotates = any(one.plugin is not None and one.plugin.annotates for one in self.checks)
        self._tests = None if tests is None else tuple(tests)
        self._skipped_changes = skipped_changes or Skipped()
        self._skipped_checks = skipped_checks or Skipped()

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

    async def admit(self, request: AdmissionRequest, asking: Asking) -> None:
        """Change the object. If a policy or webhook changed it, mutating plugins run once more before completions."""
        now = request.phase_began = perf_counter()
        now = await _run(self._mutating, request, self.admit_timing, asking, now)
        reinvocation = request.reinvocation
        if reinvocation is not None and reinvocation.due:
            request.reinvocation = reinvocation._replace(due=False, round=1)
            now = await _run(self._mutating, request, self.admit_timing, asking, now)
        if self._completing:
            now = await _run(self._completing, request, self.admit_timing, asking, now)
        self.admit_timing.passed.add(now - request.phase_began)

    async def validate(self, request: AdmissionRequest, asking: Asking) -> None:
        began = request.phase_began = perf_counter()
        now = await _run(self.checks, request, self.validate_timing, asking, began)
        self.validate_timing.passed.add(now - began)

    def may_pause(self, request: AdmissionRequest) -> bool:
        """Whether any step may be asynchronous for this request."""
        plugins = (one.plugin for one in (*self.changes, *self.checks))
        return any(one is not None and not one.idle and one.may_concern(request) for one in plugins)


async def _run(
    steps: tuple[Step, ...], request: AdmissionRequest, phase: StepTiming, asking: Asking, began: float
) -> float:
    """Run the steps, from the time `began`; returns when the last one ended."""
    for run, plugin, timing in steps:
        try:
            if plugin is None:
                changed = run(request)
            elif plugin.idle:
                continue
            else:
                at_once = (
                    plugin.admit_now(request)
                    if asking.restarts_in_thread
                    else _unless_concerned(plugin, request)
                )
                if at_once is UNCONCERNED:
                    continue
                admitted = at_once or await asking.ask(plugin, request)
        except (Retry, NeedsThread):
            raise
        except BaseException:
            now = perf_counter()
            timing.refused.add(now - began)
            phase.refused.add(now - request.phase_began)
            raise
        now = perf_counter()
        timing.passed.add(now - began)
        if plugin is not None:
            _apply_outcome(request, admitted)
            if at_once is None:
                asking.answered(request, admitted)
                now = perf_counter()
        elif changed is not None:
            request.object = changed
        began = now
    return began


def _unless_concerned(plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted | None:
    return None if plugin.concerns(request) else UNCONCERNED


def _apply_outcome(request: AdmissionRequest, admitted: Admitted) -> None:
    if admitted.warnings:
        # A write that is decided again, because its object has changed, mostly gets the same ones.
        request.warnings = tuple(dict.fromkeys((*request.warnings, *admitted.warnings)))
    if admitted.reinvocation is not None:
        request.reinvocation = admitted.reinvocation
    if admitted.object is not None:
        request.object = working_copy(admitted.object)


def working_copy(sent: Object) -> Object:
    """A copy that may be changed at its top level and in the maps directly below it."""
    copied = sent.copy()
    for key, value in sent.items():
        if type(value) is dict:
            copied[key] = value.copy()
    return copied


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
        """Compile a chain, with every call: callers cache it as long as the definition."""

        def concerned(rules: tuple[Rule, ...]) -> bool:
            return any(rule.covers(definition, operation, subresource) for rule in rules)

        mutating = [one for one in self._plugins if concerned(one.mutates)]
        completing = [one for one in self._plugins if concerned(one.completes)]
        checking = [one for one in self._plugins if concerned(one.validates)]

        def steps(plugins: list[Plugin], runs: list[Change], type_: str) -> list[Step]:
            return [
                self._step(plugin, run, self.timings.plugin(plugin.name, type_, operation))
                for plugin, run in zip(plugins, runs, strict=True)
            ]

        return Chain(
            steps(mutating, [one.mutate for one in mutating], ADMIT),
            steps(completing, [one.complete for one in completing], ADMIT),
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

    def _step(self, plugin: Plugin, run: Change, timing: StepTiming) -> Step:
        if isinstance(plugin, AsyncPlugin):
            return Step(run, plugin, timing)
        return Step(self._call(plugin, run), None, timing)

    def _call(self, plugin: Plugin, run: Change) -> Change:
        if self._in_thread and not plugin.thread_safe:
            return partial(_run_in_event_loop, run)
        return run


def _run_in_event_loop(run: Callable[[AdmissionRequest], T], request: AdmissionRequest) -> T:
    return trio.from_thread.run_sync(run, request)


class _WithTimeout:
    """For ephemeral objects. A connect lasts as long as its client wants."""

    restarts_in_thread = False

    async def ask(self, plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
        """Like `Asking.ask`. Raises WriteTimedOut if the request's time runs out first."""
        context = request.context
        if request.operation == CONNECT or context is None:
            return await plugin.admit(request)
        if request.deadline == inf:
            request.deadline = min(context.deadline, trio.current_time() + LONGEST_WRITE)
        with trio.CancelScope(deadline=request.deadline):
            admitted = plugin.admit(request)
            return await (outside(admitted) if plugin.calls_webhooks else admitted)
        raise WriteTimedOut(requested=request.deadline == context.deadline)

    def answered(self, request: AdmissionRequest, admitted: Admitted) -> None:
        pass


WITHIN_TIME: Final = _WithTimeout()


async def admit_ephemeral(chain: Chain, request: AdmissionRequest) -> None:
    """Run the mutating steps; `request.object` is their result. Raises the error of a plugin that rejects it."""
    await chain.admit(request, WITHIN_TIME)


async def validate_ephemeral(chain: Chain, request: AdmissionRequest) -> None:
    await chain.validate(request, WITHIN_TIME)
