"""Joins the requests of an audit log to recorded changes: who made each, by which verb, from where.

A response with the version of the change is exact, at level RequestResponse. Other signs are exact too:

    create    the only create of this name and, if the log has it, this uid
    update    the version that was sent is that of the change before
    delete    the uid of the object, which is marked or removed once

Otherwise object, verb and the order of both streams decide. That is a guess, because a request that fits may have
changed nothing, and the right one may follow later. It is marked as a guess, unless managedFields name a manager that
only one user and one verb of the log have. The two streams may arrive at any time: `is_ready` says whether a change
should still wait for the log.

A file has its lines in order. Batches of an audit webhook come late, repeated, and in any order (`late`): then only a
sign that no other request can have is `certain` at once: the uid of what a request created, or the version that an
update got in place of the one that it sent (a request that changed nothing returns the version of another). For all
others, `late_authors` asks again when the batches of that time have arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from rewound.actors.errors import BadRequest
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.recording.record.attribution import Writer, compared
from rewound.recording.record.changes import Author, Change
from rewound.recording.record.refused import RefusedRequests
from rewound.recording.record.requests import Request

Document = dict[str, Any]
Key = tuple[str, str, str]  # type, namespace, name; an empty name: of a whole collection, or not in the log

NEAR: Final = 10.0  # seconds from the arrival of a request until its change is written, at most
PENDING_SECONDS: Final = 30.0  # seconds for which a request waits for its change
# An API server sends a batch that failed five times, with pauses of up to 40 seconds and 30 for each try.
LATE_SECONDS: Final = 300.0
MOST_PENDING: Final = 50_000  # requests
_CHANGES: Final = frozenset({"update", "patch"})


@dataclass(slots=True, eq=False)
class _PendingRequest:
    request: Request
    keys: tuple[Key, ...]
    arrived: float
    versions: frozenset[str] = frozenset()  # versions that it may have written
    uids: frozenset[str] = frozenset()
    uses: int = 0  # changes that it made
    marked: bool = False  # one of them was a mark; the removal may follow


@dataclass(slots=True)
class Statistics:
    requests: int = 0  # that changed something recorded
    refused: int = 0
    unused: int = 0  # requests for which no change was found
    exact: int = 0  # changes
    guessed: int = 0
    unknown: int = 0  # without those that the first lists showed
    unreadable: int = 0  # lines
    why: str = ""  # the first of them could not be read
    too_many: int = 0  # refused requests that found no room in their file
    late: int = 0  # changes whose request arrived after they had been written


@dataclass(slots=True)
class Authors:
    """Matches requests to changes. `type_of` maps group and plural to the type name in the journal.

    Requests of all types wait for their change, because a kind may be discovered after the first requests for it.
    `is_recorded` says of which types changes are recorded.
    """

    type_of: Callable[[str, str], str]
    is_recorded: Callable[[str], bool]
    refused: RefusedRequests
    clock: Callable[[], float]
    now: Callable[[], int]  # in microseconds since 1970, of the recorder
    namespace: str = ""  # the only one that is recorded
    late: bool = False  # requests arrive in any order, up to LATE_SECONDS late
    # Called with a request that made a change, and whether it only marked an object as deleted.
    used: Callable[[Request, bool], None] = lambda _request, _marked: None
    # Called with a change that is written without an author: its offset, whether its object existed, and that version.
    wait: Callable[[Change, int, bool, str], None] = lambda _change, _offset, _exists, _version: None
    # The version of the first lists: requests before it are hardly in the log; 0 until they are there.
    began: int = 0
    statistics: Statistics = field(default_factory=Statistics)
    _by_key: dict[Key, list[_PendingRequest]] = field(default_factory=dict)
    _order: deque[_PendingRequest] = field(default_factory=deque)
    _position: int = 0  # the newest time in the log, by the clock of the server
    _lag: int = 1 << 62  # least difference between a time in the log and its arrival: clock skew and delay
    # Of late requests: the least time from the arrival of a request at the server to that of its change here, which is
    # hardly more than what the clocks differ; None: unknown.
    _clocks: int | None = None
    _slowest: tuple[float, float] = (-inf, 0.0)  # when a request was latest, and by how many seconds
    _arrived: set[Key] = field(default_factory=set)  # of late requests since the last look
    _written: dict[str, None] = field(default_factory=dict)  # versions of changes that have an author
    _users: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # users and verbs by manager

    def add(self, request: Request, *, uses: int = 0, marked: bool = False) -> None:
        """Add the next request of the log. `uses` and `marked` are of a recording that is continued."""
        self._position = max(self._position, request.time)
        self._lag = min(self._lag, self.now() - request.time)
        self.note_delay((self.now() - request.time) / 1e6)
        if self.namespace and request.namespace != self.namespace:
            return
        if request.refused:
            self.statistics.refused += 1
            self.refused.add(request)
            return
        if request.subresource == "token":
            return
        type_name = self.type_of(request.group, request.resource)
        self._note_user(request)
        self.statistics.requests += 1
        pending = _pending(request.without_content(), type_name, self.clock())
        pending.uses, pending.marked = uses, marked
        self._order.append(pending)
        for key in pending.keys:
            self._by_key.setdefault(key, []).append(pending)
        if self.late:
            self._arrived.update(pending.keys)
        self._expire()

    def arrived(self) -> set[Key]:
        """The objects of the late requests since the last call; an empty name: any of a namespace, or of the type."""
        found, self._arrived = self._arrived, set()
        return found

    @property
    def slowest(self) -> float:
        """By how many seconds the latest request of the last minutes was late."""
        when, delay = self._slowest
        return delay if self.clock() - when < LATE_SECONDS else 0.0

    def note_delay(self, seconds: float) -> None:
        if seconds > self.slowest:
            self._slowest = self.clock(), seconds

    def is_certain(self, change: Change) -> bool:
        """Whether a request has arrived that shows by itself that it made the change."""
        return any(_is_certain(one, change) for one in self._candidates(change))

    def is_ready(self, change: Change) -> bool:
        """Whether the request of a change has arrived, or the log is past it by a second."""
        # A list may also show what was just written, such as the first objects of a kind that has just been defined.
        if change.listed and not (self.began and (change.number or 0) > self.began):
            return True
        if any(change.version in pending.versions for pending in self._candidates(change)):
            return True
        # Before its first request, the log has no position.
        return bool(self._position) and self._position + self._lag > change.arrived + 1_000_000

    def find(
        self,
        change: Change,
        exists: bool,
        last_version: str,
        before: Callable[[], bytes],
        *,
        certain: bool = False,
        early: bool = False,
    ) -> Author | None:
        """The author of the next change of an object; `before` has its content if it exists.

        `certain`: only one that no request can refute that arrives later. `early`: those requests may still arrive, so
        everything else is a guess.
        """
        found = self._exact(change, exists, last_version, before, certain)
        guessed, manager = False, ""
        if found is None and not change.listed and not certain:
            found, guessed, manager = self._likely(change, exists, before)
        if found is None:
            self.statistics.unknown += not change.listed and not certain
            return None
        guessed |= early and not _is_certain(found, change)
        if self.late and not guessed:
            self._note_clocks(change.arrived - found.request.received)
        found.uses += 1
        self.used(found.request, found.marked)
        if change.version:
            self._remember(change.version)
        self.statistics.guessed += guessed
        self.statistics.exact += not guessed
        request = found.request
        may_apply = request.verb == "patch" and request.sent is None and not change.removed
        return Author(
            request.user,
            request.journal_verb,
            manager or request.manager,
            request.source,
            request.time,
            guessed,
            may_apply,
        )

    def close(self) -> None:
        """Count the requests that matched no change."""
        while self._order:
            self._drop(self._order.popleft())
        self.refused.close()
        self.statistics.too_many = self.refused.left_out

    # Finding the request of a change.

    def _exact(
        self, change: Change, exists: bool, last_version: str, before: Callable[[], bytes], certain: bool
    ) -> _PendingRequest | None:
        candidates = [one for one in self._candidates(change) if change.version or one.uids]
        if change.removed or (exists and _is_marked(change.body) and not _is_marked(before())):
            return None if certain else self._deleting(change, candidates, before)
        if certain:
            candidates = [one for one in candidates if _is_certain(one, change)]
        by_version = [one for one in candidates if change.version in one.versions]
        if by_version:
            # A later request that changed nothing returned the same version.
            return next((one for one in by_version if not one.uses), None) or by_version[0]
        if change.listed:
            return None
        unused = [
            one for one in candidates if not one.uses and not one.versions and self._is_timely(one, change)
        ]
        if not exists:
            found = [one for one in unused if one.request.creates and (one.request.name or one.uids)]
            found = [one for one in found if change.uid in (one.uids or {change.uid})]
        else:
            found = [one for one in unused if one.request.verb == "update"]
            found = [one for one in found if last_version and one.request.sent_version == last_version]
        return found[0] if len(found) == 1 else None

    def _deleting(
        self, change: Change, candidates: list[_PendingRequest], before: Callable[[], bytes]
    ) -> _PendingRequest | None:
        """The request that deleted an object, by uid; if it was marked, the one that removed its last finalizer."""
        named = [one for one in candidates if change.uid and change.uid in one.uids]
        if change.removed and change.body and not _is_marked(before()):
            deletes = [one for one in named if one.request.deletes]
        elif change.removed:
            ended = [one for one in named if one.request.verb in _CHANGES and _ends(one.request)]
            repeated = [one for one in named if one.request.deletes and not one.marked]
            whole = [one for one in named if one.request.deletes and _removed_at_once(one.request)]
            deletes = ended or repeated or whole
        else:
            deletes = [one for one in named if one.request.deletes and not one.marked]
        deletes = [one for one in deletes if change.version in one.versions or self._is_timely(one, change)]
        if not deletes:
            return None
        by_version = [one for one in deletes if change.version in one.versions]
        found = (by_version or deletes)[0]
        found.marked |= not change.removed
        return found

    def _likely(
        self, change: Change, exists: bool, before: Callable[[], bytes]
    ) -> tuple[_PendingRequest | None, bool, str]:
        """The request by object, verb and the order of both streams; whether it is a guess; and the manager."""
        near = [one for one in self._candidates(change) if not one.versions and self._is_near(one, change)]
        if change.removed or not change.body:
            found = [one for one in near if one.request.deletes or _ends(one.request)]
            found = [one for one in found if not change.uid or change.uid in (one.uids or {change.uid})]
            found = [one for one in found if _selects(one.request, change)]
            return (found[0], True, "") if found else (None, False, "")
        if not near:
            return None, False, ""
        if change.comparison is None:
            old = decode(before()) if exists else None
            change.comparison = compared(old, decode(change.body), change.arrived)
        writer, different = change.comparison
        if writer.deletes:
            found = [one for one in near if one.request.deletes and _selects(one.request, change)]
            return (found[0], True, "") if found else (None, False, "")
        if not exists:
            found = [one for one in near if one.request.creates and not one.uses]
        else:
            found = [one for one in near if not one.uses and _fits(one.request, different)]
        if not found:
            return None, False, ""
        return self._best(found, writer)

    def _best(self, found: list[_PendingRequest], writer: Writer) -> tuple[_PendingRequest, bool, str]:
        """The first candidate in the log; if managedFields show a manager, the first with that one."""
        if writer.guessed or not writer.manager:
            return found[0], True, ""
        same = [one for one in found if one.request.manager == writer.manager]
        if not same:
            return found[0], True, writer.manager
        return same[0], len(self._users.get(writer.manager, ())) != 1, writer.manager

    def _note_user(self, request: Request) -> None:
        """Remember up to two users of a manager: two show that it is shared. Without any, a match is a guess."""
        known = self._users.get(request.manager)
        if known is None and len(self._users) < MOST_PENDING:
            known = self._users[request.manager] = set()
        if known is not None and len(known) < 2:
            known.add((request.user, request.journal_verb))

    def _candidates(self, change: Change) -> Iterator[_PendingRequest]:
        """The requests for an object, or for collections that may have it; late ones in the order of their times."""
        type_name, namespace, _ = change.key
        keys = (change.key, (type_name, namespace, ""), *([(type_name, "", "")] if namespace else []))
        found = (one for key in keys for one in self._by_key.get(key, ()) if _may_concern(one, change))
        return iter(sorted(found, key=lambda one: one.request.time)) if self.late else found

    def _is_near(self, pending: _PendingRequest, change: Change) -> bool:
        """Whether a request was there at the time of a change."""
        if self.late:
            return self._is_timely(pending, change)
        # A request that began after the change had arrived did not make it.
        latest = change.arrived + 1_000_000 - self._lag
        return self.clock() - pending.arrived < NEAR and pending.request.received <= latest

    def _is_timely(self, pending: _PendingRequest, change: Change) -> bool:
        """Whether the times in a late request fit to a change; in a log that is in order, its place says so."""
        if not self.late or self._clocks is None:
            return True
        there, request = change.arrived - self._clocks, pending.request  # by the clock of the server
        return request.received <= there + 1_000_000 and request.time >= there - int(NEAR * 1e6)

    def _note_clocks(self, difference: int) -> None:
        self._clocks = difference if self._clocks is None else min(self._clocks, difference)

    # Requests that wait for their change.

    def _remember(self, version: str) -> None:
        self._written[version] = None
        if len(self._written) > MOST_PENDING:
            del self._written[next(iter(self._written))]

    def _expire(self) -> None:
        limit = self.clock() - (LATE_SECONDS if self.late else PENDING_SECONDS)
        while self._order and (self._order[0].arrived < limit or len(self._order) > MOST_PENDING):
            self._drop(self._order.popleft())

    def _drop(self, pending: _PendingRequest) -> None:
        for key in pending.keys:
            found = self._by_key.get(key, [])
            if pending in found:
                found.remove(pending)
            if not found:
                self._by_key.pop(key, None)
        # A request that returned the version of another changed nothing.
        if pending.uses or not self._written.keys().isdisjoint(pending.versions):
            return
        if pending.request.verb != "deletecollection" and self.is_recorded(pending.keys[0][0]):
            self.statistics.unused += 1


def _is_certain(pending: _PendingRequest, change: Change) -> bool:
    """Whether a request shows by itself that it made a change."""
    request = pending.request
    if change.version in pending.versions and request.verb == "update":
        return bool(request.sent_version) and request.sent_version != change.version
    return (
        request.creates
        and change.uid in pending.uids
        and (not change.version or change.version in pending.versions)
    )


def _may_concern(pending: _PendingRequest, change: Change) -> bool:
    """Whether a request and a change may be of the same object: another cluster has other uids for the same names."""
    return not pending.uids or not change.uid or change.uid in pending.uids


def _pending(request: Request, type_name: str, arrived: float) -> _PendingRequest:
    names, uids, versions = {request.name}, {request.uid}, {request.returned_version}
    for document in _documents(request):
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if isinstance(metadata, dict):
            names.add(str(metadata.get("name") or request.name))
            uids.add(str(metadata.get("uid") or ""))
    if len(names) > 1:
        names.discard("")
    namespace = "" if type_name == "namespaces" else request.namespace
    keys = tuple((type_name, namespace, name) for name in sorted(names))
    if request.verb == "deletecollection":
        versions = set()  # the version of a list
    return _PendingRequest(request, keys, arrived, frozenset(versions - {""}), frozenset(uids - {""}))


def _documents(request: Request) -> Iterable[Any]:
    """The objects in a response: one, or the items of a collection."""
    returned = request.returned
    if not isinstance(returned, dict) or returned.get("kind") == "Status":
        return ()
    items = returned.get("items")
    if request.verb == "deletecollection" and isinstance(items, list):
        return items
    return (returned,)


def _ends(request: Request) -> bool:
    """Whether an update or patch may have removed the last finalizer."""
    if request.verb not in _CHANGES:
        return False
    metadata = request.returned.get("metadata") if isinstance(request.returned, dict) else None
    if not isinstance(metadata, dict):
        return True
    return "deletionTimestamp" in metadata and not metadata.get("finalizers")


def _removed_at_once(request: Request) -> bool:
    """Whether a delete that marked its object also removed it, according to its response."""
    metadata = request.returned.get("metadata") if isinstance(request.returned, dict) else None
    if not isinstance(metadata, dict):
        return True
    return not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")


def _selects(request: Request, change: Change) -> bool:
    """Whether the selector of a deletecollection matches the object."""
    text = request.query.get("labelSelector", [""])[0]
    if request.verb != "deletecollection" or not text or not change.body:
        return True
    try:
        labels = decode(change.body)["metadata"].get("labels") or {}
        return LabelSelector.parse(text).matches(labels)
    except (BadRequest, AttributeError):
        return True


def _fits(request: Request, different: Collection[str]) -> bool:
    """Whether a request can have changed what differs: the status subresource its status, others everything else."""
    if request.verb not in _CHANGES and not (request.verb == "create" and request.subresource):
        return False
    if not different:
        return True
    return (request.subresource == "status") is (set(different) == {"status"})


def _is_marked(body: bytes) -> bool:
    return b'"deletionTimestamp"' in body and "deletionTimestamp" in decode(body)["metadata"]
