"""Durations of admission: of a whole phase (admit, validate), of each plugin, and of each webhook.

Metrics with Kubernetes' names are read from these. Plain integers and floats, because most steps take a few
microseconds and a write has several. Compiled chains hold the series of their steps; only steps that run are recorded,
so a write that concerns no plugin records nothing. The chains of the worker thread have their own series (`Timings` are
merged when they are read), because no two threads may add to the same number.

Clients choose the names of webhooks: beyond MAX_SERIES they are counted together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final

from rewound.actors.access.authorization.statistics import CONDITION_BOUNDS, Durations

# Seconds, as in v1.25.
BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
QUICK: Final = BOUNDS[0]
MAX_SERIES: Final = 1000
OTHER: Final = "other"
HIGHEST_CODE: Final = 600  # in metrics; higher ones count as this one
ADMIT, VALIDATE = "admit", "validate"
# Why a write was refused because of a webhook.
CALLING, INTERNAL, NO_ERROR = "calling_webhook_error", "apiserver_internal_error", "no_error"

Labels = tuple[str, ...]


class Histogram:
    __slots__ = ("buckets", "quick", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.quick = 0  # how many took less than the first bound
        self.buckets = [0] * len(BOUNDS)  # the others; the last one has those above all bounds

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        if seconds <= QUICK:
            self.quick += 1
        else:
            self.buckets[bisect_left(BOUNDS, seconds) - 1] += 1

    def counts(self) -> tuple[int, ...]:
        """The counts per bucket; the last is for durations above all bounds."""
        return (self.quick, *self.buckets)


class StepTiming:
    """The durations of one plugin or phase for one operation: of admitted and of rejected writes."""

    __slots__ = ("passed", "refused")

    def __init__(self) -> None:
        self.passed, self.refused = Histogram(), Histogram()

    def series(self, labels: Labels) -> Iterator[tuple[Labels, Histogram]]:
        for rejected, histogram in (("false", self.passed), ("true", self.refused)):
            if any(histogram.counts()):
                yield (*labels, rejected), histogram


class Skipped:
    """How many writes skipped the steps of a phase, because no plugin had anything to do.

    Such a step takes less than a microsecond, and counts as passed in no time. A write adds to one number here instead
    of to several histograms, which get it when they are read.
    """

    __slots__ = ("_histograms", "count")

    def __init__(self, histograms: tuple[Histogram, ...] = ()) -> None:
        self._histograms = histograms
        self.count = 0

    def move(self) -> None:
        """Add the writes so far to the histograms."""
        count, self.count = self.count, 0
        for histogram in self._histograms:
            histogram.quick += count


class Timings:
    def __init__(self) -> None:
        self._skipped: dict[Labels, Skipped] = {}
        self._phases: dict[Labels, StepTiming] = {}
        self._plugins: dict[Labels, StepTiming] = {}
        self._in_thread: list[Timings] = []

    def for_thread(self) -> Timings:
        """Timings that another thread may add to; they are read with these."""
        other = Timings()
        self._in_thread.append(other)
        return other

    def phase(self, type_: str, operation: str) -> StepTiming:
        found = self._phases.get((type_, operation))
        return found or self._phases.setdefault((type_, operation), StepTiming())

    def plugin(self, name: str, type_: str, operation: str) -> StepTiming:
        found = self._plugins.get((name, type_, operation))
        return found or self._plugins.setdefault((name, type_, operation), StepTiming())

    def skipped(self, names: Sequence[str], type_: str, operation: str) -> Skipped:
        """The count of writes that skip the steps of these plugins. Chains with the same plugins share it."""
        labels = (type_, operation, *names)
        found = self._skipped.get(labels)
        if found is None:
            steps = (self.plugin(name, type_, operation).passed for name in names)
            found = self._skipped[labels] = Skipped((*steps, self.phase(type_, operation).passed))
        return found

    def _move_skipped(self) -> None:
        for skipped in self._skipped.values():
            skipped.move()

    def phases(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        """Seconds and counts by type, operation and rejected."""
        self._move_skipped()
        return _merged([self._phases, *(one._phases for one in self._in_thread)])

    def plugins(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        """Seconds and counts by name, type, operation and rejected."""
        self._move_skipped()
        return _merged([self._plugins, *(one._plugins for one in self._in_thread)])


class ConditionTimings:
    """Evaluations of match conditions, by name, kind (webhook or policy), type and operation.

    Those that match without a problem are not counted, as in Kubernetes. Any thread may add.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._errors: dict[Labels, float] = {}
        self._exclusions: dict[Labels, float] = {}
        self._durations: dict[Labels, Durations] = {}

    def evaluated(self, labels: Labels, failed: int, seconds: float) -> None:
        """Conditions were not all true; `failed` of them have no value."""
        with self._lock:
            for _ in range(failed):
                _count(self._errors, labels, (OTHER,))
            if labels not in self._durations and len(self._durations) >= MAX_SERIES:
                labels = (OTHER, *labels[1:])
            self._durations.setdefault(labels, Durations(CONDITION_BOUNDS)).add(seconds)

    def excluded(self, labels: Labels) -> None:
        with self._lock:
            _count(self._exclusions, labels, (OTHER,))

    def errors(self) -> Mapping[Labels, float]:
        return dict(self._errors)

    def exclusions(self) -> Mapping[Labels, float]:
        return dict(self._exclusions)

    def durations(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        return {labels: (one.seconds, tuple(one.counts)) for labels, one in self._durations.items()}


class WebhookTimings:
    """Calls of webhooks, and writes that they refused, of both kinds of configurations."""

    def __init__(self, conditions: ConditionTimings) -> None:
        self._rejections: dict[Labels, float] = {}
        self._durations: dict[Labels, Histogram] = {}
        self._requests: dict[Labels, float] = {}
        self._ignored: dict[Labels, float] = {}
        self.conditions = conditions

    def called(
        self, type_: str, name: str, operation: str, code: int, *, rejected: bool, seconds: float
    ) -> None:
        refused = "true" if rejected else "false"
        labels = name, type_, operation, refused
        histogram = self._durations.get(labels)
        if histogram is None:
            if len(self._durations) >= MAX_SERIES:
                labels = OTHER, type_, operation, refused
            histogram = self._durations.setdefault(labels, Histogram())
        histogram.add(seconds)
        _count(self._requests, (name, type_, operation, str(code), refused), (OTHER, type_, operation, "0"))

    def ignored(self, type_: str, name: str) -> None:
        """A webhook failed, and the write continued."""
        _count(self._ignored, (name, type_), (OTHER, type_))

    def refused(self, type_: str, name: str, operation: str, error_type: str, code: int) -> None:
        """A write is refused because of a webhook."""
        labels: Labels = (error_type, name, operation, str(min(code, HIGHEST_CODE)), type_)
        if labels not in self._rejections and len(self._rejections) >= MAX_SERIES:
            labels = error_type, OTHER, operation, "0", type_
        self._rejections[labels] = self._rejections.get(labels, 0) + 1

    def rejections(self) -> Mapping[Labels, float]:
        """Refused writes by error type, name, operation, code and type."""
        return dict(self._rejections)

    def durations(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        return {labels: (one.seconds, one.counts()) for labels, one in self._durations.items()}

    def requests(self) -> Mapping[Labels, float]:
        return dict(self._requests)

    def failed_open(self) -> Mapping[Labels, float]:
        return dict(self._ignored)


# Seconds, of one expression.
POLICY_BOUNDS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)


class PolicyChecks:
    """Validations of policies that are not true, by policy, binding and what became of the write."""

    def __init__(self, *, with_error_type: bool) -> None:
        self._with_error_type = (
            with_error_type  # earlier versions have a state instead, which is always active
        )
        self._lock = Lock()  # worker threads add, too
        self._found: dict[Labels, tuple[float, list[int]]] = {}

    @property
    def labels(self) -> Labels:
        last = (
            ("error_type", "enforcement_action") if self._with_error_type else ("enforcement_action", "state")
        )
        return ("policy", "policy_binding", *last)

    def add(self, checks: Iterable[tuple[str, str, str, str, float]]) -> None:
        """Each is a policy, a binding, the message, the action and how long the expression took."""
        with self._lock:
            for policy, binding, message, action, seconds in checks:
                last = (_error_type(message), action) if self._with_error_type else (action, "active")
                self._observe((policy, binding), last, seconds)

    def _observe(self, names: tuple[str, str], last: Labels, seconds: float) -> None:
        labels: Labels = (*names, *last)
        if labels not in self._found and len(self._found) >= MAX_SERIES:
            labels = (OTHER, OTHER, *last)
        total, counts = self._found.get(labels) or (0.0, [0] * (len(POLICY_BOUNDS) + 1))
        counts[bisect_left(POLICY_BOUNDS, seconds)] += 1
        self._found[labels] = total + seconds, counts

    def counts(self) -> Mapping[Labels, float]:
        return {labels: sum(counts) for labels, (_, counts) in list(self._found.items())}

    def durations(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        return {labels: (seconds, tuple(counts)) for labels, (seconds, counts) in list(self._found.items())}


class MutationChecks(PolicyChecks):
    """Mutations of policies, by policy, binding and error."""

    def __init__(self) -> None:
        super().__init__(with_error_type=True)

    @property
    def labels(self) -> Labels:
        return "policy", "policy_binding", "error_type"

    def add_mutations(self, checks: Iterable[tuple[str, str, str, float]]) -> None:
        """Each is a policy, a binding, the type of its error and how long the mutation took."""
        with self._lock:
            for policy, binding, error, seconds in checks:
                self._observe((policy, binding), (error,), seconds)


def _error_type(message: str) -> str:
    if message.startswith("compilation"):
        return "compile_error"
    if message.startswith("validation failed due to running out of cost budget"):
        return "out_of_budget"
    return "invalid_error"


def _count(counts: dict[Labels, float], labels: Labels, other: Labels) -> None:
    if labels not in counts and len(counts) >= MAX_SERIES:
        labels = (*other, *labels[len(other) :])
    counts[labels] = counts.get(labels, 0) + 1


def _merged(all_: list[dict[Labels, StepTiming]]) -> dict[Labels, tuple[float, tuple[int, ...]]]:
    found: dict[Labels, tuple[float, tuple[int, ...]]] = {}
    for timings in all_:
        for labels, timing in list(timings.items()):
            for key, histogram in timing.series(labels):
                seconds, counts = found.get(key, (0.0, (0,) * (len(BOUNDS) + 1)))
                added = tuple(one + other for one, other in zip(counts, histogram.counts(), strict=True))
                found[key] = seconds + histogram.seconds, added
    return found
