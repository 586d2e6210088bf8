"""The observer that records requests by the audit policy and passes their events to the backends.

    request -> AuditRecord -> policy -> Event -> LogBackend, WebhookBackend

Each request calls `received` once and `emit` up to twice, so these are directly a function of records and the
backend's `put` if nothing else needs to be done. A log backend in mode `batch` that is the only backend takes records
instead of most events.

A backend in mode `batch` queues events and never delays a request. One in mode `blocking` delays the request until
its events are stored, and `blocking-strict` also refuses a request whose RequestReceived event could not be stored:
`Exchange.stored` makes the pipeline wait before it serves the request and before it returns the response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import trio

from rewound.actors.runtime.clock import Clock, nanoseconds
from rewound.gateway.audit.backends.bounds import Losses
from rewound.gateway.audit.policy import LEVEL_NAMES, REQUEST_RECEIVED, Level, PendingList, Policy
from rewound.gateway.audit.record import AuditRecord, Event, SharedRecord, receiver
from rewound.gateway.exchange import AuditNotStored, ExchangeObserver
from rewound.gateway.message import Request, Response

Handle = Callable[[Request], Awaitable[Response]]


class Backend(Protocol):
    def put(self, event: Event) -> None:
        """Queue an event; never waits."""

    @property
    def pending(self) -> PendingList | None:
        """Records and events that are not formatted yet; None if the backend takes no records in place of events."""

    async def store(self, event: Event) -> bool:
        """Wait until the event is stored; return False if it is lost."""

    async def run(self) -> None:
        """Store events until cancelled; then store what is queued, as long as the caller allows."""

    @property
    def events(self) -> int:
        """How many events it was given."""

    @property
    def losses(self) -> Sequence[Losses]: ...


@dataclass(frozen=True, slots=True)
class Attached:
    """A backend and its mode."""

    backend: Backend
    blocking: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class AuditStatistics:
    events: int
    rejected: int
    levels: Mapping[str, int]
    errors: Mapping[str, int]


class AuditLog(ExchangeObserver):
    def __init__(self, policy: Policy, backends: Sequence[Attached], clock: Clock) -> None:
        self.now = nanoseconds(clock)
        self.for_all = policy.for_all
        self.evaluate = policy.evaluate
        self._policy = policy
        self._evaluated: Counter[Level] = Counter()  # by the policies before this one
        self._pending: PendingList | None = None
        self._backends = backends
        self._batching = [one.backend.put for one in backends if not one.blocking]
        self._blocking = [one for one in backends if one.blocking]
        self._rejected = 0
        self._make_record = receiver(self, AuditRecord)
        self.received: Callable[[Request], AuditRecord] = self._make_record
        if self._blocking:
            self.received = self._received_blocking
        self.emit: Callable[[Any], None] = self._emit
        if len(backends) == 1 and self._batching:
            self.emit = self._batching[0]
            self._collect_records_in(backends[0].backend.pending)

    def _collect_records_in(self, pending: PendingList | None) -> None:
        """Let requests append their records to this list instead of emitting events; None: to no list."""
        self._pending = pending
        if pending is not None:
            pending.now = self.now
        for treatment in self._policy.treatments:
            treatment.add_to(pending)

    def replace(self, policy: Policy) -> None:
        """Decide about requests that arrive from now on by another policy."""
        self._evaluated.update(self._policy.evaluated)
        for treatment in self._policy.treatments:
            treatment.pending = (
                None  # `received` may know one of them: then it is evaluated again for each request
            )
        self.for_all, self.evaluate, self._policy = policy.for_all, policy.evaluate, policy
        self._collect_records_in(self._pending)

    def share(self) -> None:
        """Prepare for another observer, whose records are attached to those of this log."""
        self._collect_records_in(None)
        self._make_record = receiver(self, SharedRecord)
        if not self._blocking:
            self.received = self._make_record

    def _received_blocking(self, request: Request) -> AuditRecord:
        record = self._make_record(request)
        record.responding = record.report_response
        return record

    def _emit(self, event: Event) -> None:
        for put in self._batching:
            put(event)
        if self._blocking:
            self._require_stored(event)

    def _require_stored(self, event: Event) -> None:
        record = event.record
        if record.ended:
            for one in self._blocking:
                one.backend.put(event)  # nobody waits any more
            return
        record.stored = partial(self._store, event, record.stored)

    async def _store(self, event: Event, before: Callable[[], Awaitable[None]] | None) -> None:
        """Store an event in every blocking backend, after those before it. Raises AuditNotStored."""
        record, stage, _, _ = event
        if before is not None:
            await before()
        record.stored = None
        for one in self._blocking:
            if not await one.backend.store(event) and one.strict and stage is REQUEST_RECEIVED:
                self._rejected += 1
                record.abandon()
                raise AuditNotStored("failed to store audit event")

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the backends until cancelled; then wait a little for what is queued."""
        async with trio.open_nursery() as nursery:
            for one in self._backends:
                nursery.start_soon(one.backend.run)
            task_status.started()

    def statistics(self) -> AuditStatistics:
        errors: dict[str, int] = {}
        for one in self._backends:
            for losses in one.backend.losses:
                errors[losses.plugin] = errors.get(losses.plugin, 0) + losses.count
        counts = self._evaluated + Counter(self._policy.evaluated)
        levels = {LEVEL_NAMES[level]: counts[level] for level in Level}
        events = max(one.backend.events for one in self._backends)
        return AuditStatistics(events, self._rejected, levels, errors)
