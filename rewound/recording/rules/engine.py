"""Turns events into alerts, in recorded time: the same events give the same alerts, whenever they are read.

    engine = Engine(ruleset)
    for occurrence in ...: alerts += engine.feed(occurrence)
    alerts += engine.advance(now)       # also while nothing happens: states grow old, and alerts are resolved

An alert belongs to a rule and a group: it fires once, and is resolved once. A state (`for`, a built-in rule such as
stuck-deletions) fires when it has lasted long enough, and is resolved when it ends; anything else fires when it
happens, and is resolved when it has not happened again for a while. An alert has the time that it is due, not that of
the event that made the engine look, so that a clock that ticks coarsely changes nothing.

A rule that fails for an event is counted and goes on. One whose expression takes too many steps again and again is
switched off, so that it cannot hold up the others.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, Final
from urllib.parse import urlencode

from rewound.actors.cel.costs import Costs
from rewound.gateway.pipeline.route import PAGE_PATH
from rewound.journal.records import Event
from rewound.recording.query.entries import Kind
from rewound.recording.query.moments import rfc3339
from rewound.recording.rules.built_in import BuiltIn, Finding, Group, described, object_group
from rewound.recording.rules.expressions import MICROS, Condition, EventValues, Failed, Value
from rewound.recording.rules.occurrence import Occurrence

FIRING, RESOLVED = "firing", "resolved"
MOST_GROUPS: Final = 20_000  # of one rule; of more, the oldest is forgotten
_TOO_COSTLY: Final = 20  # evaluations that took too many steps, before a rule is switched off
_AROUND: Final = 15 * 60 * MICROS  # what the page shows before and after the moment
_QUIET: Final = 1_000  # of what a limit left out, the newest that outlast a process
_LONGEST_MESSAGE: Final = 1_000
_LONGEST_LABEL: Final = 256

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Alert:
    id: str  # of the alert: the same when it fires and when it is resolved
    rule: str
    severity: str
    state: str
    message: str
    labels: Group
    time: int  # when it fired or was resolved
    started: int
    version: int  # of the newest event; 0 for refused requests
    type_name: str  # of the object that the event is about
    kind: str
    namespace: str
    name: str
    user: str
    count: int  # events since it started
    left_out: int = 0  # alerts of the rule that its limit has left out since the one before

    @property
    def fragment(self) -> str:
        """What the page shows: the object at the moment, and the time around it."""
        state = {
            **({"object": f"{self.type_name}/{self.namespace}/{self.name}"} if self.version else {}),
            "at": str(self.version) if self.version else rfc3339(self.time),
            "from": rfc3339(self.started - _AROUND),
            "to": rfc3339(self.started + _AROUND),
        }
        return f"{PAGE_PATH}#{urlencode(state)}"

    def document(self, base: str = "") -> Document:
        """`base`: the URL of the server whose page shows the moment."""
        return {
            "id": self.id,
            "state": self.state,
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "labels": dict(self.labels),
            "time": rfc3339(self.time),
            "started": rfc3339(self.started),
            "version": str(self.version) if self.version else "",
            "type": self.type_name,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "user": self.user,
            "count": self.count,
            **({"leftOut": self.left_out} if self.left_out else {}),
            "url": f"{base.rstrip('/')}{self.fragment}",
        }


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many alerts of a rule start within a time; others are counted."""

    alerts: int = 20
    per: int = 3600 * MICROS


@dataclass(frozen=True, slots=True)
class Limited:
    """What the limit of a rule goes by, for another process."""

    rule: str
    recent: tuple[int, ...]  # when alerts started
    left_out: int  # since the newest of them
    quiet: tuple[
        tuple[Group, int, int], ...
    ]  # what was left out and is still true: its group, start and newest event


@dataclass(frozen=True, slots=True)
class Written:
    """A rule of a file, compiled."""

    name: str
    condition: Condition
    severity: str
    message: tuple[str | Value, ...]  # empty: the rule, the object and the user
    group: tuple[tuple[str, Value], ...]  # empty: by object
    hold: int | None  # `for`; None: it is no state
    span: int  # how far back its windows look
    text: str  # the expression, as it was written


@dataclass(slots=True)
class _State:
    started: int  # when it began; once it fired, the start of the alert
    due: int = 0
    fired: bool = False
    quiet: bool = False  # the limit left it out
    last: int = 0
    count: int = 0
    alert: Alert | None = None  # as it fired
    message: str = ""
    event: Event | None = None  # of a state that has not fired: what it fires with, without the object
    kind: Kind | None = None


@dataclass(slots=True)
class Statistics:
    events: int = 0  # that the rule looked at
    matches: int = 0
    fired: int = 0
    left_out: int = 0  # by the limit
    failures: int = 0
    failure: str = ""  # the newest
    forgotten: int = 0
    off: str = ""  # why the rule was switched off
    costs: Costs = field(default_factory=Costs)


class Rule:
    """A built-in rule or one of a file, with the alerts that it has."""

    def __init__(self, of: BuiltIn | Written, resolve_after: int, limit: Limit, severity: str = "") -> None:
        self.of, self.resolve_after, self.limit = of, resolve_after, limit
        self.name = of.name
        self.severity = severity or of.severity
        self.statistics = Statistics(costs=of.condition.costs if isinstance(of, Written) else Costs())
        self.states: OrderedDict[Group, _State] = OrderedDict()
        self.recent: deque[int] = deque()  # when alerts started
        self.left_out = 0  # since the newest alert
        self._costly = 0

    @property
    def is_built_in(self) -> bool:
        return isinstance(self.of, BuiltIn)

    @property
    def is_state(self) -> bool:
        return self.of.is_state if isinstance(self.of, BuiltIn) else self.of.hold is not None

    @property
    def hold(self) -> int:
        return self.of.hold or 0

    @property
    def looks_at_existing(self) -> bool:
        return self.of.looks_at_existing if isinstance(self.of, BuiltIn) else self.of.hold is not None

    @property
    def span(self) -> int:
        """How much of the past decides what the rule says now."""
        return max(self.of.span, self.hold)

    def wants(self, kind: Kind) -> bool:
        if isinstance(self.of, BuiltIn):
            return self.of.wants(kind)
        return self.of.condition.guard.wants(kind.type_name, kind.kind)

    def look(self, occurrence: Occurrence, values: EventValues) -> Iterator[Finding]:
        of = self.of
        if isinstance(of, BuiltIn):
            if (occurrence.refused is not None) is of.looks_at_refused:
                self.statistics.events += 1
                yield from of.look(occurrence)
                self.statistics.forgotten = of.forgotten
            return
        if not of.condition.guard.holds(occurrence):
            if of.hold is not None and occurrence.event.removed and not of.group:
                yield Finding(object_group(occurrence), str, holds=False)
            return
        self.statistics.events += 1
        try:
            holds = of.condition.holds(values)
        except Failed as error:
            self._fail(error)
            holds = False
        self.statistics.forgotten = of.condition.forgotten
        if holds or of.hold is not None:
            try:
                group = tuple((name, _label(one.key(values))) for name, one in of.group)
            except Failed as error:
                self._fail(error)
                return
            holds = holds and not (of.hold is not None and occurrence.event.removed)
            yield Finding(group or object_group(occurrence), lambda: self._message(of, values), holds=holds)

    def _fail(self, error: Failed) -> None:
        self.statistics.failures += 1
        self.statistics.failure = str(error)
        self._costly = self._costly + 1 if error.costly else 0
        if self._costly >= _TOO_COSTLY:
            self.statistics.off = f"{_TOO_COSTLY} evaluations took too long: {error}"

    def _message(self, of: Written, values: EventValues) -> str:
        occurrence = values.occurrence
        if not of.message:
            user = occurrence.event.user
            return f"{of.name}: {occurrence.change} {described(occurrence)}" + (f" by {user}" if user else "")
        parts: list[str] = []
        for one in of.message:
            try:
                parts.append(one if isinstance(one, str) else one.text_for(values))
            except Failed as error:
                parts.append(f"({one.text if isinstance(one, Value) else ''}: {error})")
        return "".join(parts)


def _label(text: str) -> str:
    return text[:_LONGEST_LABEL]


class Engine:
    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self.now = 0
        self.events = 0
        self._timers: list[tuple[int, int, Rule, Group]] = []
        self._numbers = count()
        self._of_type: dict[str, list[Rule]] = {}

    @property
    def span(self) -> int:
        """How much of the past a new engine must read, to know what one that ran all the time knows."""
        return max((rule.span + rule.resolve_after for rule in self.rules), default=0)

    def wants_existing(self, kind: Kind) -> bool:
        """Whether a rule asks which objects of a kind were there before the first event."""
        return any(rule.looks_at_existing for rule in self._rules_of(kind))

    def feed(self, occurrence: Occurrence) -> list[Alert]:
        alerts = self.advance(occurrence.time)
        self.events += 1
        values = EventValues(occurrence)
        for rule in self._rules_of(occurrence.kind):
            if rule.statistics.off or (occurrence.exists and not rule.looks_at_existing):
                continue
            for finding in rule.look(occurrence, values):
                if finding.holds:
                    self._holds(rule, finding, occurrence, alerts)
                elif finding.group in rule.states:
                    self._ends(rule, finding.group, occurrence, alerts)
        return alerts

    def advance(self, time: int) -> list[Alert]:
        """Let time pass, up to `time`."""
        alerts: list[Alert] = []
        self.now = max(self.now, time)
        while self._timers and self._timers[0][0] <= self.now:
            due, _, rule, group = heapq.heappop(self._timers)
            state = rule.states.get(group)
            if state is None:
                continue
            if not state.fired:
                if state.due == due:
                    self._fire(rule, group, state, alerts)
            elif not rule.is_state:
                if state.last + rule.resolve_after > due:
                    self._remind(state.last + rule.resolve_after, rule, group)
                else:
                    self._resolve(rule, group, due, alerts)
        return alerts

    def firing(self) -> list[Alert]:
        """The alerts that fired and are not resolved."""
        return [
            replace(state.alert, count=state.count)
            for rule in self.rules
            for state in rule.states.values()
            if state.fired and not state.quiet and state.alert is not None
        ]

    def adopt(self, alert: Alert) -> bool:
        """Go on with an alert that fired earlier, in another process; false if there is no such rule."""
        for rule in self.rules:
            if rule.name == alert.rule:
                state = _State(alert.started, alert.started, fired=True, last=alert.time, count=alert.count)
                state.alert = alert
                rule.states[alert.labels] = state
                if not rule.is_state:
                    self._remind(state.last + rule.resolve_after, rule, alert.labels)
                return True
        return False

    def limited(self) -> list[Limited]:
        """The limits of the rules that have had alerts."""
        found = []
        for rule in self.rules:
            quiet = (
                (group, one.started, one.last) for group, one in reversed(rule.states.items()) if one.quiet
            )
            newest = tuple(islice(quiet, _QUIET))
            if rule.recent or newest:
                found.append(Limited(rule.name, tuple(rule.recent), rule.left_out, newest))
        return found

    def adopt_limit(self, one: Limited) -> None:
        """Go on with the limit of another process: what that one left out must not fire now."""
        for rule in self.rules:
            if rule.name == one.rule:
                for group, started, last in one.quiet:
                    rule.states[group] = _State(started, started, fired=True, quiet=True, last=last)
                    if not rule.is_state:
                        self._remind(last + rule.resolve_after, rule, group)
                self.restore_limit(one)

    def restore_limit(self, one: Limited) -> None:
        """Forget what events that were read again have added to a limit."""
        for rule in self.rules:
            if rule.name == one.rule:
                rule.recent, rule.left_out = deque(one.recent), one.left_out

    def _rules_of(self, kind: Kind) -> list[Rule]:
        found = self._of_type.get(kind.type_name)
        if found is None:
            found = self._of_type[kind.type_name] = [rule for rule in self.rules if rule.wants(kind)]
        return found

    def _remind(self, due: int, rule: Rule, group: Group) -> None:
        heapq.heappush(self._timers, (due, next(self._numbers), rule, group))

    def _holds(self, rule: Rule, finding: Finding, occurrence: Occurrence, alerts: list[Alert]) -> None:
        rule.statistics.matches += 1
        group, time = finding.group, occurrence.time
        state = rule.states.get(group)
        if state is not None and state.fired:
            state.last, state.count = max(state.last, time), state.count + 1
            return
        if state is None:
            state = rule.states[group] = _State(time if finding.since is None else finding.since)
            if len(rule.states) > MOST_GROUPS:
                rule.states.popitem(last=False)
                rule.statistics.forgotten += 1
        state.last, state.count = time, state.count + 1
        state.event, state.kind = occurrence.event._replace(body=b"", facts=b""), occurrence.kind
        state.message = finding.message()[:_LONGEST_MESSAGE]
        if finding.since is not None:
            state.started = finding.since
        hold = rule.hold if finding.hold is None else finding.hold
        due = state.started + hold if rule.is_state else time
        if due <= self.now:
            state.due = due
            self._fire(rule, group, state, alerts)
        elif state.due != due:
            state.due = due
            self._remind(due, rule, group)

    def _ends(self, rule: Rule, group: Group, occurrence: Occurrence, alerts: list[Alert]) -> None:
        state = rule.states[group]
        if state.fired and occurrence.time < state.started:
            return  # an alert of another process, from before which the events are read again
        if state.fired:
            self._resolve(rule, group, occurrence.time, alerts, occurrence)
        else:
            del rule.states[group]

    def _fire(self, rule: Rule, group: Group, state: _State, alerts: list[Alert]) -> None:
        event, kind, time = state.event, state.kind, state.due
        assert event is not None and kind is not None, "a state that has not fired has an event"
        state.fired, state.event, state.started = True, None, time
        while rule.recent and rule.recent[0] <= time - rule.limit.per:
            rule.recent.popleft()
        if len(rule.recent) >= rule.limit.alerts:
            state.quiet = True
            rule.left_out += 1
            rule.statistics.left_out += 1
        else:
            rule.recent.append(time)
            rule.statistics.fired += 1
            state.alert = Alert(
                _identifier(rule.name, group, time),
                rule.name,
                rule.severity,
                FIRING,
                state.message,
                group,
                time,
                time,
                event.offset,
                kind.type_name,
                kind.kind,
                event.namespace,
                event.name,
                event.user,
                state.count,
                rule.left_out,
            )
            rule.left_out = 0
            alerts.append(state.alert)
        if not rule.is_state:
            self._remind(state.last + rule.resolve_after, rule, group)

    def _resolve(
        self,
        rule: Rule,
        group: Group,
        time: int,
        alerts: list[Alert],
        occurrence: Occurrence | None = None,
    ) -> None:
        state = rule.states.pop(group)
        if state.alert is None or state.quiet:
            return
        version = state.alert.version if occurrence is None else occurrence.event.offset
        alerts.append(
            replace(state.alert, state=RESOLVED, time=time, version=version, count=state.count, left_out=0)
        )


def _identifier(rule: str, group: Group, started: int) -> str:
    text = "\0".join((rule, str(started), *(part for pair in group for part in pair)))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]
