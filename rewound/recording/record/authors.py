"""Joins the requests of an audit log to recorded changes: who made each, by which verb, from where.

A response with the version of the change is exact, at level RequestResponse. Other signs are exact too:

    create    the only create of this name and, if the log has it, this uid
    update    the version that was sent is that of the change before
    delete    the uid of the object, which is marked or removed once

Otherwise object, verb and the order of both streams decide. That is a guess, because a request that fits may have
changed nothing, and the right one may follow later. It is marked as a guess, unless managedFields name a manager that
only one user and one verb of the log have. The two streams may arrive at any time: `is_ready` says whether a change
should still wait for the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rewound.actors.errors import BadRequest
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.recording.record.attribution import Writer, writer_of
from rewound.recording.record.changes import Author, Change
from rewound.recording.record.refused import RefusedRequests
from rewound.recording.record.requests import Request

Document = dict[str, Any]
Key = tuple[str, str, str]  # type, namespace, name; an empty name: of a whole collection, or not in the log

NEAR: Final = 10.0  # seconds from the arrival of a request until its change is written, at most
PENDING_SECONDS: Final = 30.0  # seconds for which a request waits for its change
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
    too_many: int = 0  # refused requests that found no room in their file


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
    # The version of the first lists: requests before it are hardly in the log; 0 until they are there.
    began: int = 0
    statistics: Statistics = field(default_factory=Statistics)
    _by_key: dict[Key, list[_PendingRequest]] = field(default_factory=dict)
    _order: deque[_PendingRequest] = field(default_factory=deque)
    _position: int = 0  # the newest time in the log, by the clock of the server
    _lag: int = 1 << 62  # least difference between a time in the log and its arrival: clock skew and delay
    _written: dict[str, None] = field(default_factory=dict)  # versions of changes that have an author
    _users: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # users and verbs by manager

    def add(self, request: Request) -> None:
        """Add the next request of the log."""
        self._position = max(self._position, request.time)
        self._lag = min(self._lag, self.now() - request.time)
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
        pending = _pending(request, type_name, self.clock())
        self._order.append(pending)
        for key in pending.keys:
            self._by_key.setdefault(key, []).append(pending)
        self._expire()

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
        self, change: Change, exists: bool, last_version: str, before: Callable[[], bytes]
    ) -> Author | None:
        """The author of the next change of an object; `before` has its content if it exists."""
        found = self._exact(change, exists, last_version, before)
        guessed, manager = False, ""
        if found is None and not change.listed:
            found, guessed, manager = self._likely(change, exists, before)
        if found is None:
            self.statistics.unknown += not change.listed
            return None
        found.uses += 1
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
        self, change: Change, exists: bool, last_version: str, before: Callable[[], bytes]
    ) -> _PendingRequest | None:
        candidates = [one for one in self._candidates(change) if change.version or one.uids]
        if change.removed or (exists and _is_marked(change.body) and not _is_marked(before())):
            return self._deleting(change, candidates, before)
        by_version = [one for one in candidates if change.version in one.versions]
        if by_version:
            # A later request that changed nothing returned the same version.
            return next((one for one in by_version if not one.uses), None) or by_version[0]
        if change.listed:
            return None
        unused = [one for one in candidates if not one.uses and not one.versions]
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
        now = self.clock()
        # A request that began after the change had arrived did not make it.
        latest = change.arrived + 1_000_000 - self._lag
        near = [
            one
            for one in self._candidates(change)
            if now - one.arrived < NEAR and not one.versions and one.request.received <= latest
        ]
        if change.removed or not change.body:
            found = [one for one in near if one.request.deletes or _ends(one.request)]
            found = [one for one in found if not change.uid or change.uid in (one.uids or {change.uid})]
            found = [one for one in found if _selects(one.request, change)]
            return (found[0], True, "") if found else (None, False, "")
        after = decode(change.body)
        old = decode(before()) if exists else None
        writer = writer_of(old, after, change.arrived)
        if writer.deletes:
            found = [one for one in near if one.request.deletes and _selects(one.request, change)]
            return (found[0], True, "") if found else (None, False, "")
        if not exists:
            found = [one for one in near if one.request.creates and not one.uses]
        else:
            found = [one for one in near if not one.uses and _fits(one.request, old or {}, after)]
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
        type_name, namespace, _ = change.key
        yield from self._by_key.get(change.key, ())
        yield from self._by_key.get((type_name, namespace, ""), ())
        if namespace:
            yield from self._by_key.get((type_name, "", ""), ())

    # Requests that wait for their change.

    def _remember(self, version: str) -> None:
        self._written[version] = None
        if len(self._written) > MOST_PENDING:
            del self._written[next(iter(self._written))]

    def _expire(self) -> None:
        limit = self.clock() - PENDING_SECONDS
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


def _fits(request: Request, before: Document, after: Document) -> bool:
    """Whether a request can have changed what differs: the status subresource its status, others everything else."""
    if request.verb not in _CHANGES and not (request.verb == "create" and request.subresource):
        return False
    different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    different.discard("metadata")
    if not different:
        return True
    return (request.subresource == "status") is (different == {"status"})


def _is_marked(body: bytes) -> bool:
    return b'"deletionTimestamp"' in body and "deletionTimestamp" in decode(body)["metadata"]
