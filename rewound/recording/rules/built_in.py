"""The rules that are on without a file: each is a class with its parameters, which a file may change.

Each looks at few events: by kind, by the names in the event, or by bytes that the object must have, before anything is
parsed. `look` yields what it found: for a group of events that something happened, or for an object that a state began
or ended (`is_state`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final

from rewound.actors.identity import SERVER_USER
from rewound.recording.query.entries import Kind, object_name
from rewound.recording.query.moments import span
from rewound.recording.record.changes import FOUND_DELETED, USER
from rewound.recording.rules.expressions import MICROS
from rewound.recording.rules.occurrence import Document, Occurrence
from rewound.recording.rules.windows import FieldFights, Window

INFO, WARNING, CRITICAL = "info", "warning", "critical"
SEVERITIES: Final = (INFO, WARNING, CRITICAL)

Group = tuple[tuple[str, str], ...]  # names and values that identify an alert of a rule
_RENEWED: Final = frozenset(("leases", "events"))  # plurals of kinds that are written again and again
_MINUTE: Final = 60 * MICROS


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found in an event."""

    group: Group
    message: Callable[[], str]
    holds: bool = True  # false: the state of the group ended
    since: int | None = None  # when the state began, if not with this event
    hold: int | None = None  # how long it must last for an alert, if not as long as the rule says


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a built-in rule. `kind`: int, duration (in microseconds) or list of texts."""

    default: Any
    meaning: str
    kind: str = "int"
    least: int = 1


class BuiltIn(ABC):
    name: ClassVar[str]
    severity: ClassVar[str] = WARNING
    meaning: ClassVar[str]
    parameters: ClassVar[Mapping[str, Parameter]]
    is_state: ClassVar[bool] = False
    looks_at_refused: ClassVar[bool] = False
    looks_at_existing: ClassVar[bool] = False

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = {name: one.default for name, one in self.parameters.items()} | dict(given)

    @property
    def hold(self) -> int:
        """How long a state must last."""
        return 0

    @property
    def span(self) -> int:
        """How far back it looks."""
        return int(self.given.get("window", 0))

    @property
    def forgotten(self) -> int:
        return 0

    @abstractmethod
    def wants(self, kind: Kind) -> bool: ...

    @abstractmethod
    def look(self, occurrence: Occurrence) -> Iterator[Finding]: ...


def object_group(occurrence: Occurrence) -> Group:
    event = occurrence.event
    return (("kind", occurrence.kind.kind), ("namespace", event.namespace), ("name", event.name))


def described(occurrence: Occurrence) -> str:
    """Kind and name for a message."""
    return f"{occurrence.kind.kind} {object_name(occurrence.event.namespace, occurrence.event.name)}"


def _who(author: tuple[str, str]) -> str:
    user, manager = author
    if user in ("", USER):
        return manager or "somebody"
    return f"{user} ({manager})" if manager and manager != user else user


def _plural(kind: Kind) -> str:
    return kind.type_name.partition(".")[0]


def length(micros: int) -> str:
    """A duration as a file has it: 5m, 1h30m."""
    seconds = micros // MICROS
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


_WINDOW: Final = Parameter(5 * _MINUTE, "how far back it looks", "duration", MICROS)


class Fights(BuiltIn):
    name = "fights"
    meaning = "several users or field managers set one field in turn"
    parameters: ClassVar = {
        "turns": Parameter(4, "turns of one field within the window", least=2),
        "window": _WINDOW,
        "exceptKinds": Parameter(("leases", "events"), "plurals that it leaves out", "texts"),
    }

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._fights = FieldFights(self.given["window"], self.given["turns"])

    @property
    def forgotten(self) -> int:
        return self._fights.forgotten

    def wants(self, kind: Kind) -> bool:
        return _plural(kind) not in self.given["exceptKinds"]

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        for fight in self._fights.add(occurrence):
            authors = " and ".join(map(_who, fight.authors))
            text = (
                f"{authors} set {fight.path} of {described(occurrence)} in turn: {fight.turns} times within "
                f"{length(self.given['window'])}"
            )
            yield Finding((*object_group(occurrence), ("field", fight.path)), lambda text=text: text)  # type: ignore[misc]


class HotLoops(BuiltIn):
    name = "hot-loops"
    meaning = "one author writes one object again and again without changing what is wanted"
    parameters: ClassVar = {
        "writes": Parameter(200, "writes of one author within the window that change no spec", least=2),
        "anyWrites": Parameter(1000, "writes of one author within the window, whatever they change", least=2),
        "window": _WINDOW,
        "exceptKinds": Parameter(("leases", "events"), "plurals that it leaves out", "texts"),
    }

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._writes = Window(self.given["window"])

    @property
    def forgotten(self) -> int:
        return self._writes.forgotten

    def wants(self, kind: Kind) -> bool:
        return _plural(kind) not in self.given["exceptKinds"]

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        event = occurrence.event
        if not event.previous or event.removed:
            return
        key = (occurrence.object_key, occurrence.author)
        self._writes.add(key, event.time, event.offset)
        number = self._writes.count(key, event.time)
        if number < min(self.given["writes"], self.given["anyWrites"]):
            return
        oldest = self._writes.entries(key, event.time)[0][1]
        if number < self.given["anyWrites"] and not self._is_unchanged(occurrence, oldest):
            return
        group = (*object_group(occurrence), ("user", event.user), ("manager", event.manager))
        window = length(self.given["window"])
        text = f"{_who(occurrence.author)} wrote {described(occurrence)} {number} times within {window}"
        if self._is_unchanged(occurrence, oldest):
            text += " and did not change its spec"
        yield Finding(group, lambda: text)

    def _is_unchanged(self, occurrence: Occurrence, oldest: int) -> bool:
        body = occurrence.contents(oldest)
        if body is None:
            return True  # retention removed it: nothing shows a change
        before = Occurrence(occurrence.kind, occurrence.event._replace(body=body), occurrence.contents).stored
        one, other = (_metadata(each).get("generation") for each in (before, occurrence.stored))
        if isinstance(one, int) and isinstance(other, int):
            return one == other
        return _wanted(before) == _wanted(occurrence.stored)


def _wanted(stored: Document) -> Document:
    return {name: value for name, value in stored.items() if name not in ("metadata", "status")}


def _metadata(stored: Document) -> Document:
    found = stored.get("metadata")
    return found if isinstance(found, dict) else {}


def _maps(value: Any) -> list[Document]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _status(stored: Document) -> Document:
    found = stored.get("status")
    return found if isinstance(found, dict) else {}


_RESTARTED: Final = re.compile(rb'"restartCount":\s*[1-9]')


class CrashLoops(BuiltIn):
    name = "crash-loops"
    meaning = "containers of one owner restart again and again, or wait in CrashLoopBackOff"
    parameters: ClassVar = {
        "restarts": Parameter(3, "restarts of the pods of one owner within the window"),
        "window": Parameter(15 * _MINUTE, "how far back it looks", "duration", MICROS),
    }

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._restarts = Window(self.given["window"])

    @property
    def forgotten(self) -> int:
        return self._restarts.forgotten

    def wants(self, kind: Kind) -> bool:
        return kind.type_name == "pods"

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        event = occurrence.event
        if event.removed or not _RESTARTED.search(event.body):
            return
        stored, before = occurrence.stored, occurrence.stored_before or {}
        counts = _restarts(before)
        owner = _owner(occurrence)
        for container, number in _restarts(stored).items():
            group = (("namespace", event.namespace), ("owner", owner), ("container", container))
            for _ in range(min(max(0, number - counts.get(container, number)), self.given["restarts"])):
                self._restarts.add(group, event.time)
            restarts = self._restarts.count(group, event.time)
            waits = _waits(stored, container)
            if waits or restarts >= self.given["restarts"]:
                text = (
                    f"container {container} of {described(occurrence)} ({owner}) has restarted {number} times"
                )
                if waits:
                    text += " and waits in CrashLoopBackOff"
                elif restarts:
                    text += f", {restarts} times within {length(self.given['window'])}"
                yield Finding(group, lambda text=text: text)  # type: ignore[misc]


def _restarts(stored: Document) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in _container_statuses(stored):
        if isinstance(number := one.get("restartCount"), int):
            found[str(one.get("name"))] = number
    return found


def _container_statuses(stored: Document) -> list[Document]:
    status = _status(stored)
    return [*_maps(status.get("initContainerStatuses")), *_maps(status.get("containerStatuses"))]


def _waits(stored: Document, container: str) -> bool:
    for one in _container_statuses(stored):
        state = one.get("state")
        waiting = state.get("waiting") if isinstance(state, dict) else None
        if one.get("name") == container and isinstance(waiting, dict):
            return waiting.get("reason") == "CrashLoopBackOff"
    return False


def _owner(occurrence: Occurrence) -> str:
    """The controller of an object, or the object itself."""
    for one in _maps(_metadata(occurrence.stored).get("ownerReferences")):
        if one.get("controller") is True:
            return f"{one.get('kind')} {one.get('name')}"
    return f"{occurrence.kind.kind} {occurrence.event.name}"


class StuckRollouts(BuiltIn):
    name = "stuck-rollouts"
    severity = CRITICAL
    meaning = "a rollout exceeded its deadline, or a controller does not see the newest spec"
    is_state = True
    looks_at_existing = True
    parameters: ClassVar = {
        "behind": Parameter(
            5 * _MINUTE, "how long status.observedGeneration may be behind", "duration", MICROS
        ),
        "kinds": Parameter(
            ("deployments", "statefulsets", "daemonsets", "replicasets"), "plurals that it looks at", "texts"
        ),
    }

    @property
    def hold(self) -> int:
        return int(self.given["behind"])

    @property
    def span(self) -> int:
        return self.hold

    def wants(self, kind: Kind) -> bool:
        return _plural(kind) in self.given["kinds"]

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        event, group = occurrence.event, object_group(occurrence)
        stored = {} if event.removed else occurrence.stored
        exceeded = any(
            one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded"
            for one in _maps(_status(stored).get("conditions"))
        )
        deadline = (*group, ("reason", "ProgressDeadlineExceeded"))
        yield Finding(
            deadline,
            lambda: f"{described(occurrence)} does not progress: its deadline has passed",
            holds=exceeded,
            hold=0,
        )
        generation, observed = (
            _metadata(stored).get("generation"),
            _status(stored).get("observedGeneration", 0),
        )
        behind = isinstance(generation, int) and isinstance(observed, int) and observed < generation
        yield Finding(
            (*group, ("reason", "NotObserved")),
            lambda: (
                f"no controller has observed generation {generation} of {described(occurrence)} for "
                f"{length(self.hold)}: the newest that one observed is {observed}"
            ),
            holds=behind and "deletionTimestamp" not in _metadata(stored),
        )


class MassDeletes(BuiltIn):
    name = "mass-deletes"
    severity = CRITICAL
    meaning = "one user deletes many objects"
    parameters: ClassVar = {
        "deletes": Parameter(50, "objects that one user deletes within the window", least=2),
        "window": _WINDOW,
        "exceptUsers": Parameter(
            (
                SERVER_USER,
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:node:*",
                "system:serviceaccount:kube-system:*",
                "system:serviceaccount:cluster-system:*",
            ),
            "users that it leaves out; * is a wildcard",
            "texts",
        ),
        "exceptKinds": Parameter(("leases", "events"), "plurals that it leaves out", "texts"),
    }

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._deletes = Window(self.given["window"], distinct=True)
        self._left_out: dict[str, bool] = {}

    @property
    def forgotten(self) -> int:
        return self._deletes.forgotten

    def wants(self, kind: Kind) -> bool:
        return _plural(kind) not in self.given["exceptKinds"]

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        event = occurrence.event
        if event.verb not in ("delete", "deletecollection") or self._leaves_out(event.user):
            return
        self._deletes.add(event.user, event.time, occurrence.object_key)
        number = self._deletes.count(event.user, event.time)
        if number >= self.given["deletes"]:
            window = length(self.given["window"])
            yield Finding(
                (("user", event.user),),
                lambda: (
                    f"{event.user} deleted {number} objects within {window}, the last one {described(occurrence)}"
                ),
            )

    def _leaves_out(self, user: str) -> bool:
        """Also when nobody knows who it was: a recording without an audit log has no users."""
        found = self._left_out.get(user)
        if found is None:
            found = user in ("", USER) or any(fnmatchcase(user, one) for one in self.given["exceptUsers"])
            if len(self._left_out) < 10_000:
                self._left_out[user] = found
        return found


class RefusedBursts(BuiltIn):
    name = "refused-bursts"
    meaning = "requests of one user are refused again and again"
    looks_at_refused = True
    parameters: ClassVar = {
        "requests": Parameter(20, "refused requests of one user within the window", least=2),
        "window": _WINDOW,
    }

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._requests = Window(self.given["window"])

    @property
    def forgotten(self) -> int:
        return self._requests.forgotten

    def wants(self, kind: Kind) -> bool:
        return True

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        refused, event = occurrence.refused, occurrence.event
        if refused is None or refused.get("conflict"):
            return
        group = (("user", event.user), ("code", str(refused.get("code", 0))))
        self._requests.add(group, event.time)
        number = self._requests.count(group, event.time)
        if number >= self.given["requests"]:
            text = str(refused.get("message") or refused.get("reason") or "")[:300]
            window = length(self.given["window"])
            yield Finding(
                group,
                lambda: (
                    f"{event.user or 'somebody'} was refused {number} requests with {refused.get('code')} within "
                    f"{window}, the last one to {event.verb} {described(occurrence)}: {text}"
                ),
            )


class StuckDeletions(BuiltIn):
    name = "stuck-deletions"
    meaning = "an object is being deleted for long"
    is_state = True
    looks_at_existing = True
    parameters: ClassVar = {
        "after": Parameter(10 * _MINUTE, "how long a deletion may take, after its grace", "duration", MICROS)
    }

    @property
    def hold(self) -> int:
        return int(self.given["after"])

    @property
    def span(self) -> int:
        return self.hold

    def wants(self, kind: Kind) -> bool:
        return _plural(kind) not in _RENEWED

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        event, group = occurrence.event, object_group(occurrence)
        deleting = not event.removed and b'"deletionTimestamp"' in event.body
        if not deleting:
            if event.removed or event.previous:
                yield Finding(group, str, holds=False)
            return
        since = time_of(_metadata(occurrence.stored).get("deletionTimestamp"))
        if since is None:
            return
        yield Finding(group, lambda: self._text(occurrence, since), since=since)

    def _text(self, occurrence: Occurrence, since: int) -> str:
        metadata = _metadata(occurrence.stored)
        finalizers = [str(one) for one in metadata.get("finalizers") or ()]
        conditions = [
            str(one.get("message"))
            for one in _maps(_status(occurrence.stored).get("conditions"))
            if one.get("status") == "True" and str(one.get("type")).startswith("Namespace")
        ]
        why = f"it waits for {', '.join(finalizers[:5])}" if finalizers else "it has no finalizer"
        more = f"; {conditions[0][:300]}" if conditions else ""
        return f"{described(occurrence)} is being deleted for more than {length(self.hold)}: {why}{more}"


_WRITTEN: Final = re.compile(rb'"time":\s*"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"')
_CLIENT_TIME: Final = re.compile(rb'"(?:renewTime|eventTime|lastTimestamp)":\s*"([ -~]{20,40}?)"')
# Times that the clock of a client wrote, by the plural of the kind.
_CLIENT_TIMES: Final = {"leases": ("renewTime",), "events": ("eventTime", "lastTimestamp")}


class ClocksApart(BuiltIn):
    name = "clocks-apart"
    meaning = "times that a server, node or client wrote differ from the time at which the change arrived"
    parameters: ClassVar = {
        "apart": Parameter(60 * MICROS, "how far apart", "duration", MICROS),
        "changes": Parameter(3, "changes of one clock, without one that is right in between"),
        "over": Parameter(
            _MINUTE, "between the first and the last of them: after a pause, many arrive at once", "duration"
        ),
    }

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._wrong = Window(3600 * MICROS)

    @property
    def span(self) -> int:
        return 3600 * MICROS

    @property
    def forgotten(self) -> int:
        return self._wrong.forgotten

    def wants(self, kind: Kind) -> bool:
        return True

    def look(self, occurrence: Occurrence) -> Iterator[Finding]:
        event = occurrence.event
        if event.removed or occurrence.exists or event.reason.startswith(FOUND_DELETED):
            return
        plural = _plural(occurrence.kind)
        if plural in _CLIENT_TIMES and not len(self._wrong) and self._seems_right(event.body, event.time):
            return
        found = (
            self._of_client(occurrence, _CLIENT_TIMES[plural])
            if plural in _CLIENT_TIMES
            else self._of_server(occurrence)
        )
        if found is None:
            return
        clock, time = found
        apart = time - event.time
        if abs(apart) < self.given["apart"]:
            self._wrong.remove(clock)
            return
        self._wrong.add(clock, event.time)
        times = self._wrong.entries(clock, event.time)
        if len(times) >= self.given["changes"] and event.time - times[0][0] >= self.given["over"]:
            direction = "ahead of" if apart > 0 else "behind"
            yield Finding(
                (("clock", clock),),
                lambda: (
                    f"the clock of {clock} is {span(abs(apart) / MICROS)} {direction} the recorder's: "
                    f"{described(occurrence)} at version {event.offset}"
                ),
            )

    def _seems_right(self, body: bytes, arrived: int) -> bool:
        """Without parsing: half of the events of a cluster are renewals of leases."""
        times = [time_of(one.decode()) for one in _CLIENT_TIME.findall(body)]
        return all(one is not None and abs(one - arrived) < self.given["apart"] for one in times)

    def _of_client(self, occurrence: Occurrence, names: tuple[str, ...]) -> tuple[str, int] | None:
        """A node's, by its lease, or that of another client. What it wrote before is not looked at again."""
        stored, before = occurrence.stored, occurrence.stored_before or {}
        if occurrence.event.previous and not before:
            return None
        spec, spec_before = (
            one.get("spec") if isinstance(one.get("spec"), dict) else one for one in (stored, before)
        )
        assert spec is not None and spec_before is not None
        for name in names:
            value = spec.get(name)
            time = None if value == spec_before.get(name) else time_of(value)
            if time is not None:
                return self._client(occurrence, stored, spec), time
        return None

    @staticmethod
    def _client(occurrence: Occurrence, stored: Document, spec: Document) -> str:
        holder = spec.get("holderIdentity")
        source = stored.get("source")
        host = source.get("host") if isinstance(source, dict) else None
        return str(
            holder
            or host
            or stored.get("reportingInstance")
            or occurrence.event.manager
            or occurrence.event.user
        )[:256]

    def _of_server(self, occurrence: Occurrence) -> tuple[str, int] | None:
        """That of the API server, by the newest time of managedFields, if this change wrote it."""
        newest = _newest_write(occurrence.event.body)
        if newest is None:
            return None
        apart = abs(newest - occurrence.event.time) >= self.given["apart"]
        if not apart:
            return "the API server", newest
        if not occurrence.event.previous or occurrence.before is None:
            return None  # an object that a list found was written at any time
        if _newest_write(occurrence.before) == newest:
            return None
        listed = {one.get("time") for one in _maps(_metadata(occurrence.stored).get("managedFields"))}
        return ("the API server", newest) if newest in {time_of(one) for one in listed} else None


def _newest_write(body: bytes) -> int | None:
    times = _WRITTEN.findall(body)
    return time_of(max(times).decode()) if times else None


def time_of(text: Any) -> int | None:
    """Microseconds since 1970 of a time of the API; None if it is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * MICROS) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


BUILT_IN: Final[Mapping[str, type[BuiltIn]]] = {
    one.name: one
    for one in (
        Fights,
        HotLoops,
        CrashLoops,
        StuckRollouts,
        MassDeletes,
        RefusedBursts,
        StuckDeletions,
        ClocksApart,
    )
}
