"""Events of controllers: written in the background, with repetitions counted as in client-go v1.25.

A controller calls `Recorder.event`, which returns at once. `EventWriter` writes waiting events. The same event about
the same object raises the count of the first one. From the tenth message with one reason within ten minutes, all are
counted in one Event, "(combined from similar events)". Each object has a budget of 25 Events per component, and one
more every five minutes. Events are best effort: a rejected one is dropped, and so are those beyond a thousand waiting.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import trio

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.errors import NotFound
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import micros_text, seconds_text
from rewound.actors.messages import Object

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 1000
_REMEMBERED: Final = 4096  # objects, reasons and messages, each
_SIMILAR: Final = 10  # messages with one reason before they are combined into one Event
_SIMILAR_WITHIN: Final = 600_000_000  # microseconds
_BURST: Final = 25
_REFRESH: Final = 1_800_000_000  # microseconds after which a series is written again
_REFILL: Final = 300_000_000  # microseconds for one more Event about an object

T = TypeVar("T")


@dataclass(slots=True)
class _Written:
    """An Event that was written, to be counted up."""

    name: str
    count: int
    first: str


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    last: int = 0


@dataclass(slots=True)
class _Budget:
    left: float
    since: int


class _Remembered(Generic[T]):
    """A dict of the most recently used entries."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: Hashable, entry: T) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)


class Correlation:
    """Decides for each event of one component whether it is a new Event, a repetition of one, or over the budget."""

    def __init__(self) -> None:
        self._written: _Remembered[_Written] = _Remembered()
        self._similar: _Remembered[_Similar] = _Remembered()
        self._budgets: _Remembered[_Budget] = _Remembered()

    def take(self, event: Object, now: int) -> tuple[Object, Hashable] | None:
        """The event to write, with its count, and the key of its repetitions; None: drop it."""
        about = tuple(event["involvedObject"].get(part, "") for part in ("kind", "namespace", "name", "uid"))
        kind_of = (*about, event["type"], event["reason"])
        key: Hashable = (*kind_of, event["involvedObject"].get("fieldPath", ""), event["message"])
        if self._is_one_of_many(kind_of, event["message"], now):
            event = {**event, "message": f"(combined from similar events): {event['message']}"}
            key = kind_of
        written = self._written.get(key)
        if written is not None:
            written.count += 1
            event = {**event, "metadata": {"name": written.name}}
            event |= {"count": written.count, "firstTimestamp": written.first}
        else:
            self._written.put(key, _Written(event["metadata"]["name"], 1, event["firstTimestamp"]))
        return (event, key) if self._has_budget(about, now) else None

    def _is_one_of_many(self, kind_of: Hashable, message: str, now: int) -> bool:
        similar = self._similar.get(kind_of)
        if similar is None or now - similar.last > _SIMILAR_WITHIN:
            similar = _Similar()
            self._similar.put(kind_of, similar)
        similar.messages.add(message)
        similar.last = now
        if len(similar.messages) < _SIMILAR:
            return False
        similar.messages.pop()
        return True

    def _has_budget(self, about: Hashable, now: int) -> bool:
        budget = self._budgets.get(about)
        if budget is None:
            budget = _Budget(_BURST, now)
            self._budgets.put(about, budget)
        budget.left = min(_BURST, budget.left + (now - budget.since) / _REFILL)
        budget.since = now
        if budget.left < 1:
            return False
        budget.left -= 1
        return True


class Recorder:
    """Records the events of one component."""

    def __init__(self, writer: EventWriter, client: Client, component: str, host: str = "") -> None:
        self._writer = writer
        self._client = client
        self._source = {"component": component, "host": host} if host else {"component": component}
        self._correlation = Correlation()

    def event(
        self,
        definition: Definition,
        about: Object,
        event_type: str,
        reason: str,
        message: str,
        field_path: str = "",
    ) -> None:
        """Record an event about an object of this definition; `event_type` is Normal or Warning."""
        reference = _reference(definition, about)
        if field_path:
            reference["fieldPath"] = field_path
        now, number = self._writer.next_time()
        text = seconds_text(now)
        event = {
            "metadata": {"name": f"{about['metadata']['name']}.{number:x}"},
            "involvedObject": reference,
            "type": event_type,
            "reason": reason,
            "message": message,
            "source": self._source,
            "firstTimestamp": text,
            "lastTimestamp": text,
            "count": 1,
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source.get("host", ""),
        }
        taken = self._correlation.take(event, now)
        if taken is not None:
            self._writer.add(self._client, *taken)


@dataclass(slots=True)
class _Series:
    """An Event of a reporter that was written, with its repetitions."""

    name: str
    count: int
    written: int  # when


class Reporter:
    """Records events in the newer form, as kube-scheduler does: with an action, a related object, and a series.

    The second of equal events starts a series, which is then written at most every half hour.
    """

    def __init__(self, writer: EventWriter, client: Client, controller: str) -> None:
        self._writer, self._client = writer, client
        self._controller = controller
        self._series: _Remembered[_Series] = _Remembered()

    def event(
        self,
        definition: Definition,
        about: Object,
        event_type: str,
        reason: str,
        note: str,
        action: str,
        related: Object | None = None,
    ) -> None:
        """Record an event about an object of this definition; `related` is another object of the same definition."""
        regarding = _reference(definition, about)
        now, number = self._writer.next_time()
        key = (event_type, reason, action, *regarding.values())
        series = self._series.get(key)
        event: Object = {
            "metadata": {"name": f"{about['metadata']['name']}.{number:x}"},
            "involvedObject": regarding,
            "type": event_type,
            "reason": reason,
            "message": note,
            "action": action,
            "eventTime": micros_text(now),
            "reportingComponent": self._controller,
            "reportingInstance": f"{self._controller}-rewound",
        }
        if related is not None:
            event["related"] = _reference(definition, related)
        if series is None:
            self._series.put(key, _Series(event["metadata"]["name"], 1, now))
        else:
            series.count += 1
            if series.count > 2 and now - series.written < _REFRESH:
                return
            series.written = now
            event["metadata"] = {"name": series.name}
            event["series"] = {"count": series.count, "lastObservedTime": event["eventTime"]}
        self._writer.add(self._client, event, (self._controller, *key))


def _reference(definition: Definition, about: Object) -> Object:
    metadata = about["metadata"]
    reference = {"apiVersion": definition.api_version, "kind": definition.kind}
    for part in ("namespace", "name", "uid", "resourceVersion"):
        if metadata.get(part):
            reference[part] = metadata[part]
    return reference


class EventWriter:
    """Writes the events of all recorders."""

    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._definition = context.registry.current.storage("events")
        self._waiting: deque[tuple[Client, Object, Hashable]] = deque()
        self._added = trio.lowlevel.ParkingLot()
        self._number = 0

    def next_time(self) -> tuple[int, int]:
        """The time in microseconds, and a different number of nanoseconds for each event, for its name."""
        now = self._clock.now()
        self._number = max(self._number + 1, now * 1000)
        return now, self._number

    def add(self, client: Client, event: Object, key: Hashable) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((client, event, key))
            self._added.unpark_all()

    async def run(self) -> None:
        """Run forever."""
        while True:
            if not self._waiting:
                await self._added.park()
            batch: dict[Hashable, tuple[Client, Object]] = {}  # only the last count of the same event
            while self._waiting:
                client, event, key = self._waiting.popleft()
                batch[client.user, key] = client, event
            for error in await run_concurrently(self._write, tuple(batch.values())):
                logger.info("an Event was not written: %s", error)

    async def _write(self, waiting: tuple[Client, Object]) -> None:
        client, event = waiting
        namespace = event["involvedObject"].get("namespace") or "default"
        if "series" in event or event.get("count", 1) > 1:
            parts = ("series",) if "series" in event else ("count", "lastTimestamp", "message")
            counted = {part: event[part] for part in parts}
            try:
                await client.patch(self._definition, namespace, event["metadata"]["name"], counted)
                return
            except NotFound:
                pass
        await client.create(self._definition, namespace, self._definition.schema.decode_object(event).object)
