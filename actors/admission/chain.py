"""Admission: mutating plugins, then completion by the server, then validating plugins.

The steps that concern one (resource, operation, subresource) are compiled into a `Chain` once, in the order in which
the plugins are listed; a write that concerns no plugin has an empty chain and no cost. The actor calls `admit` before
it prepares an object and `validate` after it has validated the object. Either returns early at an asynchronous step,
with the index of that step, and is called again to continue after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from time import perf_counter
from typing import TypeVar

import trio

from actors.admission.plugin import AsyncPlugin, Plugin, Rule
from actors.admission.request import AdmissionRequest
from actors.admission.timings import ADMIT, VALIDATE, StepTiming, Timings
from actors.kinds.declaration.definition import Definition
from actors.messages import Object
from journal.classes.dataclass import dataclass

Change = Callable[[AdmissionRequest], Object | None]
Check = Callable[[AdmissionRequest], None]
Step = TypeVar("Step", Change, Check)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chain:
    changes: tuple[Change | AsyncPlugin, ...] = ()  # mutations, then completions
    checks: tuple[Check | AsyncPlugin, ...] = ()
    asynchronous: bool = False  # at least one step is
    waiting: tuple[AsyncPlugin, ...] = ()  # those of `checks` that are asynchronous
    mutations: int = 0  # how many of `changes` are mutations
    repeated: tuple[Change, ...] = ()  # run again when a write continues after an asynchronous step
    change_timings: tuple[StepTiming, ...] = ()  # of each of `changes`
    check_timings: tuple[StepTiming, ...] = ()
    admit_timing: StepTiming = field(default_factory=StepTiming)
    validate_timing: StepTiming = field(default_factory=StepTiming)

    def __bool__(self) -> bool:
        return bool(self.changes or self.checks)

    def admit(self, request: AdmissionRequest, first: int = 0) -> int | None:
        """Change the object; returns the index of the asynchronous step that comes next, or None at the end.

        If a webhook changed the object, the mutating plugins run once more before the completions.
        """
        if not first:
            request.phase_began = perf_counter()
        if first <= self.mutations:
            index = self._change(request, first, self.mutations)
            reinvocation = request.reinvocation
            if index is None and reinvocation is not None and reinvocation.due:
                request.reinvocation = replace(reinvocation, due=False, round=1)
                index = self._change(request, 0, self.mutations)
            if index is not None:
                return index
            first = self.mutations
        index = self._change(request, first, len(self.changes)) if first < len(self.changes) else None
        if index is None:
            self.admit_timing.passed.add(perf_counter() - request.phase_began)
        return index

    def _change(self, request: AdmissionRequest, first: int, end: int) -> int | None:
        began = perf_counter()
        for index in range(first, end):
            change = self.changes[index]
            if isinstance(change, AsyncPlugin):
                if change.concerns(request):
                    return index
                continue
            try:
                changed = change(request)
            except BaseException:
                record_refusal(request, began, self.change_timings[index], self.admit_timing)
                raise
            now = perf_counter()
            self.change_timings[index].passed.add(now - began)
            began = now
            if changed is not None:
                request.object = changed
        return None

    def may_wait(self, request: AdmissionRequest) -> bool:
        """Whether a validating step may be asynchronous for this request."""
        return any(check.may_concern(request) for check in self.waiting)

    def validate(self, request: AdmissionRequest, first: int = 0) -> int | None:
        """Like `admit`, for the validating steps."""
        began = perf_counter()
        if not first:
            request.phase_began = began
        for index, check in enumerate(self.checks[first:], first):
            if isinstance(check, AsyncPlugin):
                if check.concerns(request):
                    return index
                continue
            try:
                check(request)
            except BaseException:
                record_refusal(request, began, self.check_timings[index], self.validate_timing)
                raise
            now = perf_counter()
            self.check_timings[index].passed.add(now - began)
            began = now
        self.validate_timing.passed.add(began - request.phase_began)
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

        changing = [one for one in self._plugins if concerned(one.mutates)]
        completing = [one for one in self._plugins if concerned(one.completes)]
        checking = [one for one in self._plugins if concerned(one.validates)]
        changes = [
            *(self._step(one, one.mutate) for one in changing),
            *(self._step(one, one.complete) for one in completing),
        ]
        checks = [self._step(one, one.validate) for one in checking]
        return Chain(
            tuple(changes),
            tuple(checks),
            any(isinstance(one, AsyncPlugin) for one in (*changes, *checks)),
            tuple(one for one in checks if isinstance(one, AsyncPlugin)),
            len(changing),
            tuple(self._call(one, one.mutate) for one in changing if one.repeats),
            tuple(self.timings.plugin(one.name, ADMIT, operation) for one in (*changing, *completing)),
            tuple(self.timings.plugin(one.name, VALIDATE, operation) for one in checking),
            self.timings.phase(ADMIT, operation),
            self.timings.phase(VALIDATE, operation),
        )

    def _step(self, plugin: Plugin, step: Step) -> Step | AsyncPlugin:
        return plugin if isinstance(plugin, AsyncPlugin) else self._call(plugin, step)

    def _call(self, plugin: Plugin, step: Step) -> Step:
        if self._in_thread and not plugin.thread_safe:
            return partial(_run_in_event_loop, step)
        return step


def _run_in_event_loop(step: Callable[[AdmissionRequest], T], request: AdmissionRequest) -> T:
    return trio.from_thread.run_sync(step, request)
