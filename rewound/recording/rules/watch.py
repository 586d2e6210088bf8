"""Follows a journal with rules while it grows, and hands their alerts to the sinks.

Events are read from the journal, not from a feed in memory, so that a start after a kill is the same as any other step:
the state in the folder has the last version that was looked at, what fires, and which alerts wait for which sink. It is
on the disk before an alert of its events is sent. A start reads the events before that version again, as far back as
the rules look, and drops what they would have alerted.

The clock of the rules follows that of the machine by `GRACE`, because events get into a recording some seconds later
than they happened: so a watch gives the alerts that `rewound rules test` gives for the same events.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import trio

from rewound.client.session import Session
from rewound.recording.query.folder import Folder, Kinds
from rewound.recording.query.folder_source import FolderSource
from rewound.recording.query.moments import micros_of
from rewound.recording.rules.delivery import GRACE, Queue, Sink, make_sinks
from rewound.recording.rules.engine import Alert, Engine, Rule
from rewound.recording.rules.feed import Feed, JournalFeed
from rewound.recording.rules.file import BadRules, RuleFile, read_rules
from rewound.recording.rules.trial import warming

if TYPE_CHECKING:
    from rewound.recording.flight.flight import Flight

logger = logging.getLogger(__name__)

FILE: Final = "rules-state.json"
_FOLLOWED: Final = 5.0  # seconds between two looks at the file of rules
INTERVAL: Final = 0.5  # seconds between two looks at the journal
_AT_ONCE: Final = 50  # events between two checkpoints: some milliseconds
_SAVED: Final = 10.0  # seconds between two writes of the state while nothing is alerted

Document = dict[str, Any]


class Watch:
    def __init__(
        self,
        rules: Sequence[Rule],
        feed: Feed,
        sinks: Sequence[Sink],
        folder: Path,
        now: Callable[[], int],
    ) -> None:
        """`now`: the time in microseconds."""
        self._engine = Engine(list(rules))
        self._feed, self._path, self._now = feed, folder / FILE, now
        self.queues = [Queue(sink, self._save, self._engine.firing) for sink in sinks]
        self.version = 0  # that the rules have looked at
        self._refused = 0  # the time up to which refused requests were looked at
        self._saved = -_SAVED

    async def run(self) -> None:
        """Watch until cancelled."""
        await self.begin()
        async with trio.open_nursery() as nursery:
            for queue in self.queues:
                nursery.start_soon(queue.run)
            while True:
                await self.step()
                await trio.sleep(INTERVAL)

    async def begin(self) -> None:
        """Go on where the last process ended; a new folder begins with what is true now."""
        state = self._load()
        floor, head = self._feed.ends()
        self.version = head if state is None else min(max(int(state["version"]), floor), head)
        time = self._now() - GRACE if state is None else int(state["time"])
        self._refused = time
        known: dict[str, Alert] = {}
        for one in [] if state is None else state["firing"]:
            alert = _alert(one)
            if self._engine.adopt(alert):
                known[alert.id] = alert
        for number, _ in enumerate(warming(self._engine, self._feed, self.version, time)):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        if state is not None:
            for queue in self.queues:
                queue.add([_alert(one) for one in state["waiting"].get(queue.sink.name, ())])
        self._hand_over([one for one in self._engine.firing() if one.id not in known])

    async def step(self) -> None:
        """Look at what the journal has got since the last step."""
        now = self._now()
        _, head = self._feed.ends()
        alerts: list[Alert] = []
        refused = self._feed.refused(self._refused, now)
        for number, occurrence in enumerate(self._feed.between(self.version, head, refused)):
            alerts += self._engine.feed(occurrence)
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        self.version, self._refused = head, now
        alerts += self._engine.advance(now - GRACE)
        if alerts:
            self._hand_over(alerts)
        elif trio.current_time() - self._saved > _SAVED:
            self._save()

    def _hand_over(self, alerts: Sequence[Alert]) -> None:
        for queue in self.queues:
            queue.add(alerts)
        self._save()  # before a sink sends them, which is after the next checkpoint

    def statistics(self) -> Document:
        return {
            "version": str(self.version),
            "firing": len(self._engine.firing()),
            "rules": {
                rule.name: {
                    "fired": rule.statistics.fired,
                    "leftOut": rule.statistics.left_out,
                    "failures": rule.statistics.failures,
                    "forgotten": rule.statistics.forgotten,
                    "off": rule.statistics.off,
                }
                for rule in self._engine.rules
            },
            "sinks": [queue.statistics() for queue in self.queues],
        }

    def _load(self) -> Document | None:
        try:
            found: Document = orjson.loads(self._path.read_bytes())
            return found if isinstance(found, dict) and found.get("layout") == 1 else None
        except FileNotFoundError:
            return None
        except orjson.JSONDecodeError:
            logger.warning("%s is damaged: rules begin at the newest event", self._path)
            return None

    def _save(self) -> None:
        state = {
            "layout": 1,
            "version": str(self.version),
            "time": self._engine.now,
            "firing": [one.document() for one in self._engine.firing()],
            "waiting": {queue.sink.name: [one.document() for one in queue.waiting] for queue in self.queues},
        }
        temporary = self._path.with_suffix(".new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(orjson.dumps(state))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self._path)
        self._saved = trio.current_time()


class RulesBeside:
    """Watches a recording while `rewound flight` records it; follows the file of rules when it changes."""

    def __init__(self, path: Path, base: str, session: Session) -> None:
        """`base`: the URL of the page; `session`: of the recorded cluster, for Events. Raises BadRules or OSError."""
        self._path, self._base, self._session = path, base, session
        self._changed = _changed(path)
        self._rules = read_rules(path)
        self.watch: Watch | None = None

    async def __call__(self, flight: Flight) -> None:
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, flight)
                self._rules = await self._next_rules()
                nursery.cancel_scope.cancel()

    async def _watch(self, flight: Flight) -> None:
        folder = Folder(flight.journal, Kinds(flight.journal), flight.folder)
        feed = JournalFeed(flight.journal, FolderSource(folder))
        sinks = make_sinks(self._rules.sinks, self._base, self._session)
        self.watch = Watch(self._rules.rules, feed, sinks, flight.folder, flight.clock.now)
        try:
            await self.watch.run()
        finally:
            with trio.move_on_after(1, shield=True):
                for sink in sinks:
                    await sink.aclose()

    async def _next_rules(self) -> RuleFile:
        """Wait until the file has other rules; one that is invalid changes nothing."""
        while True:
            await trio.sleep(_FOLLOWED)
            changed = _changed(self._path)
            if changed == self._changed:
                continue
            self._changed = changed
            try:
                found = read_rules(self._path)
            except (BadRules, OSError) as error:
                logger.warning("the rules stay as they are: %s", error)
                continue
            logger.info("the rules of %s have changed", self._path)
            return found


def _changed(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


def _alert(one: Document) -> Alert:
    return Alert(
        one["id"],
        one["rule"],
        one["severity"],
        one["state"],
        one["message"],
        tuple(one["labels"].items()),
        micros_of(one["time"]),
        micros_of(one["started"]),
        int(one["version"] or 0),
        one["type"],
        one["kind"],
        one["namespace"],
        one["name"],
        one["user"],
        one["count"],
        one.get("leftOut", 0),
    )
