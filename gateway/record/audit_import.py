"""A journal from an audit log alone: what each request of the log did to the objects of the server.

    requests -> effects -> a window in which versions are put in order -> RecordingWriter (the journal)

A response has the object with its version, which is exact. Without responses (level Request) content is what was sent:
patches are applied with the code that the server applies them with. Without both (Metadata) the event has the last
content that is known. The reason of an event says where its content, or its version, is not from the log.

Lines are in the order in which responses ended, which is nearly that of versions; they are held for two seconds of the
log's time, and sorted. A delete has no version in the log: it took one that no other request has, after those of the
requests that were complete before it arrived. The first such number is its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from rewound.actors.errors import BadRequest
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import Names
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.gateway.record.changes import (
    SECRETS,
    Author,
    Change,
    change_of,
    check_names,
    number_of,
    stored_change,
)
from rewound.gateway.record.definitions import Definitions
from rewound.gateway.record.kinds import MAX_KINDS, RecordedKind, kind_of
from rewound.gateway.record.refused import RefusedRequests
from rewound.gateway.record.requests import Request
from rewound.gateway.record.sent import Unresolved, content_sent, is_gone
from rewound.gateway.record.writer import RecordingWriter
from rewound.journal.keys import MAX_OFFSET

Document = dict[str, Any]
Key = tuple[str, str, str]  # type, namespace, name

HELD: Final = 2_000_000  # microseconds of the log's time; lines of one server are rarely apart by more
MOST_HELD: Final = 20_000  # effects
MOST_HELD_BYTES: Final = 64 << 20
REMEMBERED: Final = 100_000  # uids of deleted objects: a late line must not bring one back
UNKNOWN_CONTENT: Final = "content unknown"
ASSUMED_VERSION: Final = "version assumed"
UNSHOWN: Final = "the log shows neither the stored object nor the definition of its kind"
UNKNOWN_COLLECTION: Final = "the log lacks the objects of a deletecollection"
BEFORE_LOG: Final = "existed before the log"
# Subresources that change no stored object, or none that they name.
_WITHOUT_EFFECT: Final = frozenset({"token", "exec", "attach", "portforward", "proxy", "log"})
_UNREADABLE: Final = (KeyError, TypeError, AttributeError, ValueError)


@dataclass(slots=True, eq=False)
class Effect:
    """What a request did to one object: it has the content `change`, or it is removed, or neither is in the log."""

    kind: RecordedKind
    namespace: str
    name: str
    request: Request
    uid: str = ""
    change: Change | None = None
    removed: bool = False
    seen: Change | None = None  # the object before it was deleted, as the response shows it
    number: int | None = None  # the version
    after: int = 0  # the version is higher than this
    known: int = 0  # the highest version that was returned before the request arrived
    shown: set[Key] = field(default_factory=set)  # of a collection: objects whose own effects are known

    @property
    def key(self) -> Key:
        return self.kind.type_name, self.namespace, self.name


@dataclass(slots=True)
class Summary:
    requests: int = 0
    refused: int = 0
    # Requests that changed something which the log does not say, by what is missing.
    missing: Counter[str] = field(default_factory=Counter)


class AuditImport:
    def __init__(
        self, writer: RecordingWriter, names: Names, refused: RefusedRequests, *, with_secrets: bool
    ) -> None:
        self._writer = writer
        self._names = names
        self._refused = refused
        self._with_secrets = with_secrets
        self._catalog = built_in(names)
        self._definitions = Definitions(writer, names, self._catalog)
        self._declared = {(one.group, one.version, one.plural): one for one in self._catalog.declared}
        self._kinds: dict[tuple[str, str, str], RecordedKind | None] = {}
        self._held: list[Effect] = []
        self._held_bytes = 0
        # When requests were complete, ascending, and the highest version until then.
        self._complete: deque[tuple[int, int]] = deque(maxlen=10_000)
        self._gone: dict[str, None] = {}  # uids, oldest first
        self._definition_type = definition_type(names)
        self._defined: set[str] = set()  # custom types whose definitions the log has
        self.summary = Summary()

    def take(self, request: Request) -> None:
        """The next request of the log."""
        self.summary.requests += 1
        if request.refused:
            self.summary.refused += 1
            self._refused.add(request)
            return
        try:
            found = list(self._effects(request))
        except _UNREADABLE:
            self.summary.missing["their content cannot be read"] += 1
            return
        if found:
            # Their contents are bytes by now; only what a response does not show is read when it is released.
            if all(one.change is not None or one.removed for one in found):
                request.sent = None
            request.returned = None if request.subresource != "scale" else request.returned
            # The version that the client sent is that of the object until then.
            sent = number_of(request.sent_version) or 0
            highest = self._highest_before(request.received)
            for effect in found:
                effect.after, effect.known = max(effect.after, highest, sent), highest
            self._held += found
            self._held_bytes += request.size
            self._note(request.time, max(sent, *(one.number or 0 for one in found)))
        if len(self._held) > MOST_HELD or self._held_bytes > MOST_HELD_BYTES:
            self._release(self._held[: len(self._held) // 2 or 1])
        elif self._held and request.time - self._held[0].request.time > 2 * HELD:
            until = request.time - HELD
            self._release([one for one in self._held if one.request.time <= until])

    def finish(self) -> Summary:
        """Everything that is held; durable when this returns."""
        self._release(self._held)
        self._writer.flush()
        return self.summary

    # What a request did.

    def _effects(self, request: Request) -> Iterator[Effect]:
        """KeyError, TypeError, AttributeError, ValueError for documents that are no objects."""
        kind = self._kind(request)
        if kind is None or request.subresource in _WITHOUT_EFFECT:
            return
        returned = request.returned if isinstance(request.returned, dict) else None
        if request.verb == "deletecollection":
            yield from self._collection(kind, request, returned)
            return
        document = returned if returned is not None and returned.get("kind") == kind.kind else None
        metadata = {} if document is None else document["metadata"]
        namespace = request.namespace if kind.namespaced else ""
        name = metadata.get("name") or request.name or _name_in(request.sent)
        if not name:
            self.summary.missing["the log lacks the name of the created object"] += 1
            return
        uid = metadata.get("uid") or request.uid
        check_names(namespace, name, uid, "")
        if kind.type_name == self._definition_type and len(self._defined) < MAX_KINDS:
            self._defined.add(name)
        if self._may_be_unstored(kind, request, metadata):
            self.summary.missing[UNSHOWN] += 1
            return
        effect = Effect(kind, namespace, name, request, uid)
        if request.subresource == "scale":
            effect.number = number_of(request.returned_version)  # that of the object
        if document is not None and metadata.get("resourceVersion"):
            yield from self._returned(effect, document)
            return
        effect.removed = request.verb == "delete" and self._says_removed(request)
        yield effect

    def _may_be_unstored(self, kind: RecordedKind, request: Request, metadata: Document) -> bool:
        """Whether a create may be one of an aggregated server that stores nothing, such as a request for a token.

        What was sent may have credentials then. A definition in the log, or a uid and a version in the response, tell.
        """
        if kind.is_built_in or request.verb != "create" or request.subresource:
            return False
        if kind.type_name in self._defined or (request.sent is None and request.returned is None):
            return False
        return not (metadata.get("uid") and metadata.get("resourceVersion"))

    def _returned(self, effect: Effect, document: Document) -> Iterator[Effect]:
        """What a response with the object shows: its content, or that it is gone."""
        request, change = effect.request, self._change(effect, document)
        deletes = request.verb == "delete"
        gone = request.verb != "create" and is_gone(effect.kind, document, deleted=deletes)
        # A delete stores the mark before it removes the object; an update without the last finalizer only removes it.
        if not gone or (deletes and "deletionTimestamp" in document["metadata"]):
            effect.change, effect.number = change, number_of(change.version)
            yield effect
        if gone:
            after, seen = change.number or 0, None if effect.change is not None else change
            yield Effect(*_place(effect), request, effect.uid, removed=True, seen=seen, after=after)

    def _collection(
        self, kind: RecordedKind, request: Request, returned: Document | None
    ) -> Iterator[Effect]:
        """The items of the response; without one the known objects that the selectors match."""
        items = returned.get("items") if returned is not None else None
        if not isinstance(items, list):
            yield Effect(kind, request.namespace if kind.namespaced else "", "", request)
            return
        for item in items:
            metadata = item["metadata"]
            where = str(metadata.get("namespace", "")) if kind.namespaced else ""
            effect = Effect(kind, where, metadata["name"], request, metadata.get("uid", ""))
            effect.seen = self._change(effect, item)
            effect.after = effect.seen.number or 0
            yield effect

    def _matching(self, kind: RecordedKind, namespace: str, request: Request) -> list[tuple[str, str]]:
        """Known objects that a deletecollection deleted whose response does not name them."""
        selectors = request.query.get("labelSelector", [""])[0], request.query.get("fieldSelector", [""])[0]
        try:
            selector = LabelSelector.parse(selectors[0])
        except BadRequest:
            selector = None
        if selector is None or selectors[1]:
            self.summary.missing[UNKNOWN_COLLECTION] += 1
            return []
        known = sorted(self._writer.names_of(kind.type_name))
        known = [(where, name) for where, name in known if not namespace or where == namespace]
        if not selector:
            return known
        found = [one for one in known if selector.matches(self._labels((kind.type_name, *one)))]
        if known and not found:
            self.summary.missing[UNKNOWN_COLLECTION] += 1  # a log of level Metadata has no labels
        return found

    def _labels(self, key: Key) -> dict[str, str]:
        return decode(self._writer.content(key))["metadata"].get("labels") or {}

    def _says_removed(self, request: Request) -> bool:
        """Whether a delete responded with a Status, which a log of any level has.

        Kubernetes responds with the object while something keeps it. This server's own dialect always has a Status.
        """
        says = request.status.get("status") == "Success" and bool(request.status.get("details"))
        return says and self._names.dialect == "kubernetes"

    def _kind(self, request: Request) -> RecordedKind | None:
        """The kind of a request's object; None for what no server stores, or nobody could name."""
        place = request.group, request.version, request.resource
        known = self._kinds.get(place, ...)
        if known is not ... and (known is None or known.kind != _assumed_kind(request.resource)):
            return known
        name, definition = _kind_name(request), self._declared.get(place)
        kind = kind_of(place, name, bool(request.namespace), self._catalog, definition)
        if kind is not None and len(self._kinds) < MAX_KINDS:
            self._writer.journal.register_types([kind.type_name])
            self._kinds[place] = kind
        return kind if place in self._kinds else None

    def _change(self, effect: Effect, document: Document) -> Change:
        return change_of(
            effect.kind, document, effect.request.time, removed=False, with_secrets=self._with_secrets
        )

    # The order of versions.

    def _note(self, time: int, version: int) -> None:
        last_time, last = self._complete[-1] if self._complete else (0, 0)
        self._complete.append((max(time, last_time), max(version, last)))

    def _highest_before(self, received: int) -> int:
        """The highest version of the requests that were complete when another arrived."""
        position = bisect_right(self._complete, (received, 0))
        return self._complete[position - 1][1] if position else 0

    def _release(self, effects: list[Effect]) -> None:
        """Write effects in the order of their versions.

        One without a version comes right after what is known to be before it; those of types of which the log shows no
        versions come in the order of the log. It is resolved there; what it changes gets the next free numbers, and
        waits for its turn.
        """
        taken = {one.number for one in self._held if one.number is not None}
        released = set(map(id, effects))
        self._held = [one for one in self._held if id(one) not in released]
        self._held_bytes = sum(one.request.size for one in self._held)
        effects = list(_with_revealed(effects))
        turns, last, following = _Turns(), dict[Key, int](), _following([*effects, *self._held])
        numbered = {one.kind.type_name for one in (*effects, *self._held) if one.number is not None}
        for order, effect in enumerate(effects):
            before = last.get(effect.key, 0)
            if effect.number is None and effect.seen is not None and effect.request.verb == "delete":
                self._use_seen_version(effect, before)
            if effect.number is None:
                effect.after = min(effect.after, following.get(id(effect), MAX_OFFSET) - 1)
                effect.after = max(effect.after, before, self._known(effect.key))
                turns.add_unnumbered(effect, order, in_log_order=effect.kind.type_name not in numbered)
            else:
                last[effect.key] = max(before, effect.number)
                turns.add(effect.number, order, effect)
        for order, one in turns:
            if isinstance(one, Change):
                self._add(one)
                continue
            number = one.after
            for change in self._changes(one):
                if change.version or one.number is not None:
                    self._add(change)
                    continue
                number += 1
                while number in taken:
                    number += 1
                if number < following.get(id(one), MAX_OFFSET):
                    taken.add(number)
                    change.place = number
                turns.add(change.place or one.after, order, change)

    def _use_seen_version(self, effect: Effect, before: int) -> None:
        """Newer servers respond to a delete with its own version: one that a known object does not have yet."""
        assert effect.seen is not None
        number, known = effect.seen.number, max(before, self._known(effect.key))
        if number is not None and 0 < known < number:
            effect.number = number

    def _known(self, key: Key) -> int:
        known = self._writer.written(key)
        return 0 if known is None else known.offset

    # The journal.

    def _add(self, change: Change) -> None:
        known = self._writer.written(change.key)
        self._definitions.add(change)
        if change.removed and known is not None:
            self._forget(known.uid)

    def _forget(self, uid: str) -> None:
        if not uid:
            return
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _changes(self, effect: Effect) -> Iterator[Change]:
        """What an effect becomes: its own changes, and before a removal one that shows an object not seen before.

        Those with a version are in the journal before the next one is asked for.
        """
        request = effect.request
        if not effect.name:
            for where, name in self._matching(effect.kind, effect.namespace, request):
                if (effect.kind.type_name, where, name) in effect.shown:
                    continue
                yield from self._changes(Effect(effect.kind, where, name, request))
            return
        known = self._writer.written(effect.key)
        others = known is not None and known.uid and effect.uid and known.uid != effect.uid
        if effect.uid in self._gone or (effect.removed and others):
            return  # a late line, or a delete of an earlier object of this name
        if effect.change is not None:
            effect.change.author = _author(request)
            yield effect.change
            return
        deletes = request.verb in ("delete", "deletecollection")
        if effect.seen is not None and (known is None or (deletes and effect.number is None)):
            effect.seen.reason = BEFORE_LOG if known is None else ""
            yield effect.seen  # which the journal has already, unless its last write is not in the log
        elif known is None and deletes:
            yield self._placeholder(effect, BEFORE_LOG)
            effect.removed = True
        for change in self._resolved(effect):
            change.author = _author(request)
            change.version = "" if effect.number is None else str(effect.number)
            yield change

    def _resolved(self, effect: Effect) -> Iterator[Change]:
        """The changes of an effect whose content is not in a response; none if nothing changed."""
        assumed = ASSUMED_VERSION if effect.number is None else ""
        if effect.removed:
            yield self._unchanged(effect, assumed, removed=True)
            return
        exists = self._writer.written(effect.key) is not None
        try:
            before = decode(self._writer.content(effect.key)) if exists else None
            found = content_sent(effect.kind, before, effect.request)
            if found.document is not None:
                change = self._of_storage(effect, found.document)
                change.reason = _joined(assumed, found.how)
                yield change
            if found.removed:
                yield self._unchanged(effect, assumed, removed=True)
        except (Unresolved, *_UNREADABLE) as error:
            why = f"{UNKNOWN_CONTENT}: {error}"
            if effect.kind.type_name == SECRETS and not self._with_secrets:
                why = UNKNOWN_CONTENT  # the error may quote what was sent
            reason = _joined(assumed, why)
            yield (
                self._unchanged(effect, reason, removed=False)
                if exists
                else self._placeholder(effect, reason)
            )

    def _of_storage(self, effect: Effect, document: Document) -> Change:
        return stored_change(
            effect.kind, document, effect.request.time, removed=False, with_secrets=self._with_secrets
        )

    def _unchanged(self, effect: Effect, reason: str, *, removed: bool) -> Change:
        """With the last content that is known."""
        return Change(*_place(effect), effect.uid, "", removed, b"", b"", effect.request.time, reason)

    def _placeholder(self, effect: Effect, reason: str) -> Change:
        """An object of which only its name is known."""
        metadata = {"name": effect.name, "creationTimestamp": rfc3339(effect.request.received)[:19] + "Z"}
        if effect.kind.namespaced:
            metadata["namespace"] = effect.namespace
        if effect.uid:
            metadata["uid"] = effect.uid
        change = self._of_storage(effect, {"metadata": metadata})
        change.reason = reason if UNKNOWN_CONTENT in reason else _joined(reason, UNKNOWN_CONTENT)
        return change


def _with_revealed(effects: list[Effect]) -> Iterator[Effect]:
    """The same where a later response reveals what an effect without a version made of an object.

    A request that returns a version from before its arrival changed nothing: the version is that of the effect before.
    """
    unknown: dict[Key, Effect] = {}
    returned: set[tuple[Key, int]] = set()  # what others have written, or was revealed before
    revealed: dict[int, Effect] = {}
    more: dict[int, list[Effect]] = {}
    for effect in effects:
        if effect.number is None:
            unknown[effect.key] = effect
            continue
        is_known = (effect.key, effect.number) in returned
        returned.add((effect.key, effect.number))
        if is_known or effect.change is None or effect.number > effect.known:
            unknown.pop(effect.key, None)
            continue
        type_name, namespace, _ = effect.key
        keys = (effect.key, (type_name, namespace, ""), (type_name, "", ""))
        before = next((unknown[key] for key in keys if key in unknown), None)
        if before is None or before.removed or before.uid not in ("", effect.uid):
            continue
        if before.after >= effect.number:
            continue  # it is older
        before.shown.add(effect.key)
        shown = Effect(*_place(effect), before.request, effect.uid, effect.change, number=effect.number)
        if before.name:
            revealed[id(before)] = shown
            del unknown[effect.key]
        else:
            more.setdefault(id(before), []).append(shown)
        revealed[id(effect)] = shown
    for effect in effects:
        shown_now = revealed.get(id(effect), effect)
        if shown_now is effect or effect.number is None:
            yield shown_now
        yield from more.get(id(effect), ())


def _following(effects: list[Effect]) -> dict[int, int]:
    """For each effect without a version, by id, the lowest version that its object has after it in the log."""
    found: dict[int, int] = {}
    next_ones: dict[Key, int] = {}
    for effect in reversed(effects):
        if effect.number is not None:
            next_ones[effect.key] = min(effect.number, next_ones.get(effect.key, effect.number))
        elif effect.key in next_ones:
            found[id(effect)] = next_ones[effect.key]
    return found


class _Turns:
    """Effects and changes by their numbers; one that has none after everything that the log has before it.

    `order` is the place in the log. An effect without a number waits for the earlier ones of the same object that have
    none either: what it makes of the object depends on them. One without a name is of all objects of its namespace.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Effect | Change]] = []
        self._count = 0
        # Where the effects that have no number are, by object and order; and the last change of each.
        self._open: dict[Key, dict[int, int]] = {}
        # Effects in the order of the log: the first of them is in the heap until it is resolved, `_active` is its
        # order. The next one comes after what it has changed.
        self._queue: deque[tuple[int, Effect]] = deque()
        self._active = -1
        self._reached = 0

    def add(self, number: int, order: int, one: Effect | Change) -> None:
        if isinstance(one, Change):
            self._open.setdefault(one.key, {})[order] = 2 * number
            if order == self._active:
                self._reached = max(self._reached, 2 * number + 1)
        self._push(2 * number, order, one)

    def add_unnumbered(self, effect: Effect, order: int, *, in_log_order: bool) -> None:
        if in_log_order:
            self._queue.append((order, effect))
            if self._active < 0:
                self._start_next()
            return
        self._open_at(2 * effect.after + 1, order, effect)

    def _start_next(self) -> None:
        if not self._queue:
            self._active = -1
            return
        self._active, effect = self._queue.popleft()
        self._reached = max(2 * effect.after + 1, self._reached)
        effect.after = self._reached // 2
        self._open_at(self._reached, self._active, effect)

    def _open_at(self, position: int, order: int, effect: Effect) -> None:
        self._open.setdefault(effect.key, {})[order] = position
        self._push(position, order, effect)

    def __iter__(self) -> Iterator[tuple[int, Effect | Change]]:
        while self._heap:
            position, order, _, one = heappop(self._heap)
            if isinstance(one, Effect) and one.number is None:
                earlier = self._earlier(one, order)
                if earlier >= position:
                    one.after = max(one.after, earlier // 2)
                    self._open[one.key][order] = earlier + 1
                    self._push(earlier + 1, order, one)
                    continue
            if self._open.get(one.key, {}).get(order) == position:
                del self._open[one.key][order]
            yield order, one
            if isinstance(one, Effect) and order == self._active:
                self._start_next()

    def _push(self, position: int, order: int, one: Effect | Change) -> None:
        self._count += 1
        heappush(self._heap, (position, order, self._count, one))

    def _earlier(self, effect: Effect, order: int) -> int:
        """The last position of what is earlier in the log and may concern the same object; -1 without any."""
        type_name, namespace, name = effect.key
        keys: Iterable[Key] = (effect.key, (type_name, namespace, ""), (type_name, "", ""))
        if not name:
            keys = [one for one in self._open if one[0] == type_name and namespace in ("", one[1])]
        places = (self._open.get(key, {}) for key in keys)
        return max((place for found in places for other, place in found.items() if other < order), default=-1)


def _joined(*reasons: str) -> str:
    """One reason: the writer adds others after `; `."""
    return ", ".join(one.replace(";", ",") for one in reasons if one)


def _author(request: Request) -> Author:
    return Author(request.user, request.journal_verb, request.manager, request.source, request.time)


def _kind_name(request: Request) -> str:
    """What the objects are called; of a subresource only the object's own kind counts."""
    for document in (request.returned, request.sent):
        if isinstance(document, dict) and request.subresource in ("", "status"):
            found = document.get("kind")
            if isinstance(found, str) and found not in ("", "Status", "DeleteOptions"):
                return found.removesuffix("List") if request.verb == "deletecollection" else found
    return _assumed_kind(request.resource)


def _assumed_kind(plural: str) -> str:
    """Of a custom kind, until the log shows an object of it."""
    return plural.removesuffix("s").capitalize()


def _place(effect: Effect) -> tuple[RecordedKind, str, str]:
    return effect.kind, effect.namespace, effect.name


def _name_in(sent: Any) -> str:
    metadata = sent.get("metadata") if isinstance(sent, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
