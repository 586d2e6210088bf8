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
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import trio

from rewound.actors.rewind.moments import rfc3339
from rewound.client.errors import ClientError
from rewound.client.session import Session
from rewound.journal.files.private import read_regular
from rewound.recording.query.folder import Folder, Kinds
from rewound.recording.query.folder_source import FolderSource
from rewound.recording.query.moments import micros_of
from rewound.recording.rules.delivery import GRACE, BadSink, Queue, Sink, make_sinks
from rewound.recording.rules.engine import Alert, Engine, Limited, Rule
from rewound.recording.rules.feed import Feed, JournalFeed
from rewound.recording.rules.file import BadRules, RuleFile
from rewound.recording.rules.source import RulesSource
from rewound.recording.rules.trial import warming

if TYPE_CHECKING:
    from rewound.gateway.ops.metrics import Metrics
    from rewound.recording.flight.flight import Flight

logger = logging.getLogger(__name__)

FILE: Final = "rules-state.json"
_FOLLOWED: Final = 5.0  # seconds between two looks at the rules
_SHOWN: Final = 20  # alerts in the document of a flight
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
        self._unsaved = False  # the state could not be written

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
        limits = [_limited(one) for one in (state or {}).get("limits", ())]
        for limit in limits:
            self._engine.adopt_limit(limit)
        for number, _ in enumerate(warming(self._engine, self._feed, self.version, time)):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        for limit in limits:
            self._engine.restore_limit(limit)
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

    def firing(self) -> list[Alert]:
        return self._engine.firing()

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
            found: Document = orjson.loads(read_regular(self._path))
            return found if isinstance(found, dict) and found.get("layout") == 1 else None
        except FileNotFoundError:
            return None
        except (OSError, orjson.JSONDecodeError) as error:
            logger.warning("%s cannot be read (%s): rules begin at the newest event", self._path, error)
            return None

    def _save(self) -> None:
        state = {
            "layout": 1,
            "version": str(self.version),
            "time": self._engine.now,
            "firing": [one.document() for one in self._engine.firing()],
            "limits": [asdict(one) for one in self._engine.limited()],
            "waiting": {queue.sink.name: [one.document() for one in queue.waiting] for queue in self.queues},
        }
        self._saved = trio.current_time()
        try:
            self._write(orjson.dumps(state))
        except OSError as error:
            if not self._unsaved:
                logger.warning("%s: %s; after a kill, alerts may come again", self._path, error.strerror)
            self._unsaved = True
        else:
            self._unsaved = False

    def _write(self, state: bytes) -> None:
        temporary = self._path.with_suffix(".new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(state)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self._path)


class RulesBeside:
    """Watches a recording while `rewound flight` records it; follows the rules when they change."""

    name = "rules"

    def __init__(self, source: RulesSource, base: str, session: Session) -> None:
        """`base`: the URL of the page; `session`: of the recorded cluster, for Events."""
        self._source, self._base, self._session = source, base, session
        self._problem = ""
        self.watch: Watch | None = None

    async def __call__(self, flight: Flight) -> None:
        # The kinds of a journal take a while to read; other rules look at the same ones.
        folder = Folder(flight.journal, Kinds(flight.journal), flight.folder)
        feed = JournalFeed(flight.journal, FolderSource(folder))
        rules, sinks = await self._next_rules(flight.folder)
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, rules, sinks, feed, flight)
                rules, sinks = await self._next_rules(flight.folder, _FOLLOWED)
                logger.info("the rules have changed")
                nursery.cancel_scope.cancel()

    async def _watch(self, rules: RuleFile, sinks: Sequence[Sink], feed: Feed, flight: Flight) -> None:
        self.watch = Watch(rules.rules, feed, sinks, flight.folder, flight.clock.now)
        try:
            await self.watch.run()
        finally:
            with trio.move_on_after(1, shield=True):
                for sink in sinks:
                    await sink.aclose()

    async def _next_rules(self, folder: Path, pause: float = 0.0) -> tuple[RuleFile, list[Sink]]:
        """Wait until there are other rules; what is invalid, or cannot be read, changes nothing."""
        found: RuleFile | None = None  # whose sinks cannot be made yet
        invalid = ""
        while True:
            await trio.sleep(pause)
            pause = _FOLLOWED
            try:
                new = await trio.to_thread.run_sync(self._source.read, folder, abandon_on_cancel=True)
                if new is not None:
                    found, invalid = new, ""
                sinks = None if found is None else make_sinks(found.sinks, self._base, self._session)
                self._problem = invalid
                if found is not None and sinks is not None:
                    return found, sinks
            except BadRules as error:
                found, invalid = None, str(error)
                self._report(invalid)
                await trio.to_thread.run_sync(self._source.refuse, error, abandon_on_cancel=True)
            except (ClientError, BadSink, OSError, ValueError) as error:
                self._report(str(error))

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            logger.warning("the rules stay as they are: %s", problem)
        self._problem = problem

    def document(self) -> Document:
        """What /debug/rewound/flight shows: what fires, the newest first, and how the sinks are."""
        if self.watch is None:
            return {"firing": 0, "alerts": [], "problem": self._problem, "sinks": []}
        firing = sorted(self.watch.firing(), key=lambda one: -one.started)
        return {
            "firing": len(firing),
            "alerts": [
                {
                    "rule": one.rule,
                    "severity": one.severity,
                    "message": one.message,
                    "started": rfc3339(one.started),
                }
                for one in firing[:_SHOWN]
            ],
            "problem": self._problem,
            "sinks": self.watch.statistics()["sinks"],
        }

    def meter(self, metrics: Metrics) -> None:
        def of_rules(what: str) -> dict[str, int]:
            found = {} if self.watch is None else self.watch.statistics()["rules"]
            return {name: one[what] for name, one in found.items()}

        def of_sinks(what: str) -> dict[str, int]:
            found = [] if self.watch is None else self.watch.statistics()["sinks"]
            return {one["sink"]: one[what] for one in found}

        metrics.gauge(
            "rewound_rules_firing",
            "Alerts that fire now.",
            lambda: 0 if self.watch is None else len(self.watch.firing()),
        )
        for name, text, what in (
            ("fired", "Alerts of a rule since its rules were read.", "fired"),
            ("rate_limited", "Alerts of a rule that its rate limit left out.", "leftOut"),
            ("failures", "Events for which an expression had no value.", "failures"),
        ):
            metrics.counter(f"rewound_rules_{name}_total", text, partial(of_rules, what), "rule")
        for name, text in (
            ("sent", "Alerts that a sink has accepted."),
            ("refused", "Alerts that a sink has refused for good."),
            ("dropped", "Alerts that were dropped because too many waited for a sink."),
        ):
            metrics.counter(f"rewound_rules_sink_{name}_total", text, partial(of_sinks, name), "sink")
        metrics.gauge(
            "rewound_rules_sink_waiting",
            "Alerts that a sink has not accepted yet.",
            partial(of_sinks, "waiting"),
            "sink",
        )


def _limited(one: Document) -> Limited:
    quiet = (
        (tuple((name, value) for name, value in group), int(started), int(last))
        for group, started, last in one["quiet"]
    )
    return Limited(one["rule"], tuple(map(int, one["recent"])), int(one["left_out"]), tuple(quiet))


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
