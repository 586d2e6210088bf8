"""Fault rules: which requests, which fault, and how often; `Faults` decides for each request what happens to it.

A decision depends only on the seed, the rule, the client (user and user agent) and the ordinal of the request among
those of this client that match the rule. Time and the order of other clients have no influence, so the same controller
that sends the same requests gets the same faults again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
VERBS: Final = frozenset({"get", "list", "watch"}) | WRITES
# Clients whose ordinals are remembered: bounded, because clients choose their user agents.
MAX_CLIENTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Delay:
    """The request waits before it is served, plus a random part of the jitter."""

    seconds: float
    jitter_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StaleRead:
    """A read or the start of a watch is served from an older version, where its resourceVersion allows that.

    One of both is set.
    """

    versions: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CutWatch:
    """A watch ends after some events.

    `clean` ends the stream properly, `reset` leaves its end out, `truncated` also sends half of the next event.
    """

    after_events: int
    up_to_events: int  # the number is chosen between both
    end: str = "clean"


@dataclass(frozen=True, slots=True)
class LagWatch:
    """A watch gets every event late: after so many later events of the watch, or so many seconds after its commit.

    One of both is set.
    """

    events: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RepeatEvents:
    """A watch from a version starts this many events earlier, so that the client gets some a second time."""

    events: int


@dataclass(frozen=True, slots=True)
class ExpiredVersion:
    """A list or watch that names a version, and a continued list, gets 410."""


@dataclass(frozen=True, slots=True)
class WriteConflict:
    """A write gets 409 and does not happen."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    code: int
    message: str = ""
    retry_after_seconds: int = 0
    after_write: bool = False  # the write happens, and the client gets the error in place of the response


@dataclass(frozen=True, slots=True)
class LostReply:
    """The connection (over HTTP/2: the stream) ends without a response."""

    after_write: bool = True  # otherwise the request is not served


Fault = (
    Delay
    | StaleRead
    | CutWatch
    | LagWatch
    | RepeatEvents
    | ExpiredVersion
    | WriteConflict
    | ErrorResponse
    | LostReply
)

# The names of faults in rules.
NAMES: Final[dict[type, str]] = {
    Delay: "delay",
    StaleRead: "stale",
    CutWatch: "cutWatch",
    LagWatch: "lagWatch",
    RepeatEvents: "repeatEvents",
    ExpiredVersion: "expired",
    WriteConflict: "conflict",
    ErrorResponse: "error",
    LostReply: "loseReply",
}


def possible_verbs(fault: Fault) -> frozenset[str]:
    """The verbs that a fault can happen to."""
    match fault:
        case StaleRead():
            return frozenset({"get", "list", "watch"})
        case CutWatch() | LagWatch() | RepeatEvents():
            return frozenset({"watch"})
        case ExpiredVersion():
            return frozenset({"list", "watch"})
        case WriteConflict():
            return frozenset({"update", "patch", "delete"})
        case ErrorResponse(after_write=True):
            return WRITES
    return VERBS


class FaultRequest(NamedTuple):
    """The fields of a request that rules match."""

    user: str
    user_agent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    names_version: bool = False  # a version to start or to read at, or a continue token
    may_be_stale: bool = False


def matches(pattern: str, text: str) -> bool:
    """Whether the text matches the pattern, in which `*` stands for any characters; in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *inner, last = rest
    if not text.startswith(first):
        return False
    position = len(first)
    for part in inner:
        position = text.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return len(text) - len(last) >= position and text.endswith(last)


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """`pods`, `deployments.apps`, `pods/status`, `*/status`, or `*`, which includes subresources."""

    resource: str
    group: str | None = None  # None: any
    subresource: str = ""

    def has(self, request: FaultRequest) -> bool:
        if not matches(self.resource, request.resource):
            return False
        if self.group is not None and self.group != request.group:
            return False
        return matches(self.subresource, request.subresource)


@dataclass(frozen=True, slots=True)
class Match:
    """Selects requests; an empty list matches all."""

    user: str = "*"
    user_agent: str = "*"
    verbs: frozenset[str] = VERBS
    resources: tuple[ResourcePattern, ...] = ()
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def has(self, request: FaultRequest) -> bool:
        return (
            request.verb in self.verbs
            and matches(self.user, request.user)
            and matches(self.user_agent, request.user_agent)
            and (not self.resources or any(one.has(request) for one in self.resources))
            and (not self.namespaces or any(matches(one, request.namespace) for one in self.namespaces))
            and (not self.names or any(matches(one, request.name) for one in self.names))
        )


@dataclass(frozen=True, slots=True)
class When:
    """Selects some of the matching requests of a client; all conditions must hold.

    after=2, first=3, every=2: of the requests 3, 4, 5 the second, which is 4.
    """

    after: int = 0
    first: int | None = None
    every: int = 1
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class FaultRule:
    name: str
    match: Match
    fault: Fault
    when: When = When()

    def concerns(self, request: FaultRequest) -> bool:
        """Whether the rule matches and its fault can happen to the request; only such requests count."""
        if isinstance(self.fault, StaleRead) and not request.may_be_stale:
            return False
        if isinstance(self.fault, ExpiredVersion | RepeatEvents) and not request.names_version:
            return False
        return self.match.has(request)


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule that applies to a request. `draw` gives the random numbers that its fault needs."""

    rule: FaultRule
    seed: int
    client: tuple[str, str]
    ordinal: int

    def draw(self, purpose: str) -> float:
        """A number from 0 up to 1 (exclusive), always the same for the same purpose."""
        parts = (str(self.seed), self.rule.name, *self.client, str(self.ordinal), purpose)
        data = b"\0".join(part.encode(errors="surrogateescape") for part in parts)
        return (int.from_bytes(blake2b(data, digest_size=8).digest()) >> 11) / (1 << 53)

    @property
    def happens(self) -> bool:
        when, number = self.rule.when, self.ordinal - self.rule.when.after
        if number < 1 or (when.first is not None and number > when.first) or number % when.every:
            return False
        return when.probability >= 1 or self.draw("probability") < when.probability

    @property
    def delay_seconds(self) -> float:
        fault = self.rule.fault
        assert isinstance(fault, Delay)
        return fault.seconds + fault.jitter_seconds * self.draw("jitter")

    @property
    def event_count(self) -> int:
        """After how many events the watch is cut."""
        fault = self.rule.fault
        assert isinstance(fault, CutWatch)
        choices = fault.up_to_events - fault.after_events + 1
        return fault.after_events + int(choices * self.draw("events"))


@dataclass(frozen=True, slots=True)
class Decisions:
    """What happens to a request: all delays, one lag, and of the other faults that of the first rule that applies."""

    delays: tuple[Decision, ...] = ()
    fault: Decision | None = None
    lag: Decision | None = None

    @property
    def all(self) -> tuple[Decision, ...]:
        return (*self.delays, *(one for one in (self.lag, self.fault) if one is not None))


NOTHING: Final = Decisions()


@dataclass(slots=True)
class RuleCounts:
    matched: int = 0
    applied: int = 0
    ordinals: dict[tuple[str, str], int] = field(default_factory=dict)  # of the last request, by client

    def next_ordinal(self, client: tuple[str, str]) -> int:
        self.matched += 1
        ordinal = self.ordinals.pop(client, 0) + 1
        self.ordinals[client] = ordinal
        if len(self.ordinals) > MAX_CLIENTS:
            del self.ordinals[next(iter(self.ordinals))]
        return ordinal


class Faults:
    """Rules in order, with a seed. Each rule counts every request that it concerns, whichever rule applies."""

    def __init__(self, rules: Sequence[FaultRule], seed: int = 0, documents: Sequence[Any] = ()) -> None:
        """`documents`: the rules as they were given, for GET."""
        self.rules = tuple(rules)
        self.seed = seed
        self.documents = documents
        self.counts = [RuleCounts() for _ in rules]

    def decide(self, request: FaultRequest) -> Decisions:
        return self._decide(request, self.rules)

    def decide_lag(self, request: FaultRequest) -> Decision | None:
        """The lag of a watch that is open when the rules are set, if any."""
        return self._decide(request, [one for one in self.rules if isinstance(one.fault, LagWatch)]).lag

    def _decide(self, request: FaultRequest, rules: Sequence[FaultRule]) -> Decisions:
        found: list[Decision] = []
        for rule in rules:
            if rule.concerns(request):
                client = (request.user, request.user_agent)
                decision = Decision(rule, self.seed, client, self._counts_of(rule).next_ordinal(client))
                if decision.happens:
                    found.append(decision)
        if not found:
            return NOTHING
        delays = tuple(one for one in found if isinstance(one.rule.fault, Delay))
        lag = next((one for one in found if isinstance(one.rule.fault, LagWatch)), None)
        fault = next((one for one in found if not isinstance(one.rule.fault, Delay | LagWatch)), None)
        decisions = Decisions(delays, fault, lag)
        for one in decisions.all:
            self._counts_of(one.rule).applied += 1
        return decisions

    def _counts_of(self, rule: FaultRule) -> RuleCounts:
        return self.counts[self.rules.index(rule)]
