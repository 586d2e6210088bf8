"""Makes a journal from an audit log alone, by computing what each request did to the objects of the server.

    requests -> effects -> a window in which versions are put in order -> RecordingWriter (the journal)

A response has the object with its version, which is exact. Without responses (level Request) the content is that of the
request; patches are applied by the server's own code. Without both (Metadata) the event has the last known content. The
reason of an event says if its content or its version is not from the log.

Lines are in the order in which responses ended, which is nearly that of versions; they are held for a minute of the
log's time, and sorted. A delete has no version in the log: it got one that no other request has, after those of the
requests that were complete before it arrived. The first such number is used; `effects` has its bounds. An event that
is not from a request, or arrives too late for its version, never gets the version of another one in the window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rewound.actors.errors import BadRequest
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import Names
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.actors.versions.features import REMOVAL_VERSION, release_of
from rewound.recording.record.changes import (
    SECRETS,
    Author,
    Change,
    change_of,
    check_names,
    number_of,
    stored_change,
)
from rewound.recording.record.definitions import Definitions
from rewound.recording.record.effects import (
    Effect,
    Key,
    ObjectVersions,
    TakenVersions,
    Turns,
    bound_by_log,
    settle_marks,
    settle_removals,
    settle_writers,
    with_revealed,
)
from rewound.recording.record.kinds import MAX_KINDS, RecordedKind, kind_of
from rewound.recording.record.refused import RefusedRequests
from rewound.recording.record.requests import Request
from rewound.recording.record.sent import Unresolved, content_sent, is_gone
from rewound.recording.record.writer import RecordingWriter

Document = dict[str, Any]

# Microseconds of the log's time. A request lasts at most a minute, the default of --request-timeout; the line of a long
# request comes after those of requests with later versions.
HELD: Final = 60_000_000
CLOCKS_DIFFER: Final = 1_000_000  # microseconds between servers of one cluster
MOST_HELD: Final = 20_000  # effects
MOST_HELD_BYTES: Final = 64 << 20
REMEMBERED: Final = 100_000  # uids of deleted objects: a late line must not bring one back
UNKNOWN_CONTENT: Final = "content unknown"
ASSUMED_VERSION: Final = "version assumed"
ASSUMED_DELETION: Final = "deletion assumed"
UNSHOWN: Final = "the log shows neither the stored object nor the definition of its kind"
UNKNOWN_COLLECTION: Final = "the log lacks the objects of a deletecollection"
CREATED_MEANWHILE: Final = (
    "the log does not say whether a deletecollection deleted what was created while it ran"
)
BEFORE_LOG: Final = "existed before the log"
UNLOGGED: Final = "its request is not in the log"
# Subresources that change no stored object, or none that they name.
_WITHOUT_EFFECT: Final = frozenset({"token", "exec", "attach", "portforward", "proxy", "log"})
_UNREADABLE: Final = (KeyError, TypeError, AttributeError, ValueError)
_MOST_CAUSES: Final = 16  # deletes that are looked at for the one before a create


@dataclass(slots=True)
class Summary:
    requests: int = 0
    refused: int = 0
    # Requests that changed something unknown, by what the log lacks.
    missing: Counter[str] = field(default_factory=Counter)


class AuditImport:
    def __init__(
        self, writer: RecordingWriter, names: Names, refused: RefusedRequests, *, with_secrets: bool
    ) -> None:
        self._writer = writer
        self._names = names
        self._refused = refused
        self._with_secrets = with_secrets
        release = release_of(writer.journal.kubernetes)
        self._catalog, self._names_removal = built_in(names, release), REMOVAL_VERSION in release.features
        self._definitions = Definitions(writer, names, self._catalog)
        self._declared = {(one.group, one.version, one.plural): one for one in self._catalog.declared}
        self._kinds: dict[tuple[str, str, str], RecordedKind | None] = {}
        self._held: list[Effect] = []
        self._held_bytes = 0
        # The known versions of released effects, and their order.
        self._taken, self._versions, self._turns = (
            TakenVersions(()),
            ObjectVersions(()),
            Turns(self._first_free),
        )
        self._numbered: set[str] = set()  # types with versions
        # Each new highest version, ascending, and when its request was complete.
        self._complete: deque[tuple[int, int]] = deque(maxlen=100_000)
        self._created: dict[Key, Effect] = {}  # the last create of each object of the window
        self._gone: dict[str, None] = {}  # uids, oldest first
        self._definition_type = definition_type(names)
        self._defined: set[str] = set()  # custom types whose definitions the log has
        self._first_received = 0  # when the first request arrived, in microseconds since 1970
        self.summary = Summary()

    def take(self, request: Request) -> None:
        """Add the next request of the log."""
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
            self._first_received = self._first_received or request.received
            # Free the decoded documents: contents are bytes now, and only unresolved effects need the request's body.
            if all(one.change is not None or one.removed for one in found):
                request.sent = None
            request.returned = None if request.subresource != "scale" else request.returned
            # The object had the version that the client sent.
            sent = number_of(request.sent_version) or 0
            highest, known = map(self._highest_before, (request.received, request.received - CLOCKS_DIFFER))
            for effect in found:
                effect.after = max(effect.after, highest, sent)
                effect.known, effect.known_well = highest, known
                self._note_created(effect)
            if not found[0].name:
                found += self._created_during(found[0])
            self._held += found
            self._held_bytes += request.size
            self._note(request.time, max(sent, *(one.number or 0 for one in found)))
        if len(self._held) > MOST_HELD or self._held_bytes > MOST_HELD_BYTES:
            self._release(self._held[: len(self._held) // 2 or 1])
        elif self._held and request.time - self._held[0].request.time > 2 * HELD:
            until = request.time - HELD
            self._release([one for one in self._held if one.request.time <= until])

    def finish(self) -> Summary:
        """Write everything that is held; it is durable when this returns."""
        self._release(self._held)
        self._definitions.finish()
        self._writer.flush()
        return self.summary

    # The effects of a request.

    def _effects(self, request: Request) -> Iterator[Effect]:
        """The effects of a request. Raises KeyError, TypeError, AttributeError or ValueError for malformed objects."""
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
            effect.number = number_of(request.returned_version)  # the object's version
        if document is not None and metadata.get("resourceVersion"):
            yield from self._returned(effect, document)
            return
        effect.removed = request.verb == "delete" and self._says_removed(request)
        yield effect

    def _may_be_unstored(self, kind: RecordedKind, request: Request, metadata: Document) -> bool:
        """Whether a create may be one that an aggregated server does not store, such as a request for a token.

        It may contain credentials then. A definition in the log, or a uid and a version in the response, rule that out.
        """
        if kind.is_built_in or request.verb != "create" or request.subresource:
            return False
        if kind.type_name in self._defined or (request.sent is None and request.returned is None):
            return False
        return not (metadata.get("uid") and metadata.get("resourceVersion"))

    def _returned(self, effect: Effect, document: Document) -> Iterator[Effect]:
        """The effect that a response with the object shows: its content, or that it is gone."""
        request, change = effect.request, self._change(effect, document)
        deletes = request.verb == "delete"
        gone = request.verb != "create" and is_gone(effect.kind, document, deleted=deletes)
        # A delete stores the mark before it removes the object; an update without the last finalizer only removes it.
        if not gone or (deletes and "deletionTimestamp" in document["metadata"]):
            effect.change, effect.number = change, number_of(change.version)
            yield effect
        if gone:
            after, seen = change.number or 0, None if effect.change is not None else change
            mark = effect if effect.change is not None else None
            yield Effect(*effect.place, request, effect.uid, removed=True, seen=seen, mark=mark, after=after)

    def _collection(
        self, kind: RecordedKind, request: Request, returned: Document | None
    ) -> Iterator[Effect]:
        """The items of the response; without one the known objects that the selectors match."""
        items = returned.get("items") if returned is not None else None
        if not isinstance(items, list):
            yield Effect(kind, request.namespace if kind.namespaced else "", "", request)
            return
        listed = _version_of_list(returned)
        for item in items:
            metadata = item["metadata"]
            where = str(metadata.get("namespace", "")) if kind.namespaced else ""
            effect = Effect(kind, where, metadata["name"], request, metadata.get("uid", ""))
            seen = effect.seen = self._change(effect, item)
            if seen.number is not None:
                yield Effect(*effect.place, request, effect.uid, seen, number=seen.number, observed=True)
            effect.after = max(seen.number or 0, listed)
            yield effect

    def _matching(self, kind: RecordedKind, namespace: str, request: Request) -> list[tuple[str, str]]:
        """The known objects that a deletecollection deleted, if its response does not name them."""
        selector = _selector(request)
        if selector is None:
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

    def _is_selected(self, effect: Effect) -> bool:
        selector = _selector(effect.request)
        known = selector is not None and self._writer.written(effect.key) is not None
        return known and (not selector or selector.matches(self._labels(effect.key)))

    def _labels(self, key: Key) -> dict[str, str]:
        return decode(self._writer.content(key))["metadata"].get("labels") or {}

    def _says_removed(self, request: Request) -> bool:
        """Whether a delete responded with a Status, which logs of every level show.

        Kubernetes responds with the object while something keeps it. This server's own dialect always has a Status.
        """
        says = request.status.get("status") == "Success" and bool(request.status.get("details"))
        return says and self._names.dialect == "kubernetes"

    def _kind(self, request: Request) -> RecordedKind | None:
        """The kind of a request's object; None if no server stores it, or its name is invalid."""
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
        if version > last:
            self._complete.append((max(time, last_time), version))

    def _note_created(self, effect: Effect) -> None:
        if effect.request.creates and effect.name:
            self._created.pop(effect.key, None)
            self._created[effect.key] = effect
            while len(self._created) > MOST_HELD:
                del self._created[next(iter(self._created))]

    def _created_during(self, effect: Effect) -> Iterator[Effect]:
        """The objects that were created while a deletecollection ran whose response names no objects.

        Lines of creates come before its own. Those that arrived before it count as found, those after it do not.
        """
        arrived = effect.request.received
        for key, created in self._created.items():
            if not effect.covers(key) or created.request.time < arrived:
                continue
            if created.request.received >= arrived:
                effect.created_during[key] = created.uid
            elif created.number is not None:
                yield Effect(*created.place, effect.request, created.uid, after=created.number, assumed=True)

    def _highest_before(self, received: int) -> int:
        """The highest version of the requests that were complete when another arrived."""
        position = bisect_right(self._complete, (received, 0))
        return self._complete[position - 1][1] if position else 0

    def _release(self, effects: list[Effect]) -> None:
        """Write effects in the order of their versions.

        One without a version comes right after the last one that is known to be before it; those of types without
        versions in the log come in the order of the log. It is resolved there; its changes get the next free versions,
        and wait for their turn.
        """
        released = set(map(id, effects))
        self._held = [one for one in self._held if id(one) not in released]
        self._held_bytes = sum(one.request.size for one in self._held)
        window = [*effects, *self._held]
        settle_writers(window)
        self._names_removal = settle_removals(window, self._writer.head, named=self._names_removal)
        settle_marks(window)
        effects = list(with_revealed([one for one in effects if not one.dropped]))
        self._held = [one for one in self._held if not one.dropped]
        window = [*effects, *self._held]
        self._taken, self._versions, self._turns = (
            TakenVersions(window),
            ObjectVersions(window),
            Turns(self._first_free),
        )
        self._numbered = {one.kind.type_name for one in window if one.number is not None}
        bound_by_log(window)
        last = dict[Key, int]()
        for order, effect in enumerate(self._with_causes(effects)):
            before = last.get(effect.key, 0)
            if effect.number is None and effect.seen is not None and effect.request.verb == "delete":
                self._use_seen_version(effect, before)
            if effect.number is None:
                self._wait(effect, order, before)
            else:
                last[effect.key] = max(before, effect.number)
                self._turns.add(effect.number, order, effect)
        for order, one in self._turns:
            if isinstance(one, Change):
                self._write(one, order)
            elif one.name:
                self._take_turn(one, order)
            else:
                self._expand(one, order)

    def _wait(self, effect: Effect, order: int, before: int) -> None:
        """Queue an effect without a version; `before` is the version before it in the log."""
        written = self._writer.written(effect.key)
        if self._versions.is_removed_by_another(effect) and self._was_created_during(effect):
            # It deletes by name, and may have deleted the next object.
            self.summary.missing[CREATED_MEANWHILE] += 1
        if not (effect.deletes and self._versions.bound(effect, written)):
            effect.after = min(effect.after, effect.before - 1)
            effect.after = max(effect.after, before, 0 if written is None else written.offset)
        in_log_order = effect.kind.type_name not in self._numbered
        self._turns.add_unnumbered(effect, order, in_log_order=in_log_order)

    def _was_created_during(self, effect: Effect) -> bool:
        created = self._created.get(effect.key)
        others = created is not None and created.uid != effect.uid
        return created is not None and others and created.request.received <= effect.request.time

    def _take_turn(self, effect: Effect, order: int) -> None:
        """Write the changes of an effect, or queue them for their version."""
        number = effect.after
        for change in self._changes(effect):
            if change.number is None or change.number <= self._writer.head:
                number = self._first_free(number)
                if number >= effect.before:
                    return  # the next version of the object shows that it was before that
                self._taken.take(number)
                change.place = number
                self._turns.add(number, order, change)
            else:
                self._add(change)

    def _first_free(self, after: int) -> int:
        return self._taken.first_free(max(after, self._writer.head))

    def _write(self, change: Change, order: int) -> None:
        """Write a change that was queued for a version, unless another one has got that."""
        self._definitions.prepare(change)
        if change.place > self._writer.head:
            self._append(change)
            return
        change.place = self._first_free(0)
        self._taken.take(change.place)
        self._turns.add(change.place, order, change)

    def _expand(self, effect: Effect, order: int) -> None:
        """Delete the known objects of a deletecollection whose response names none."""
        for where, name in self._matching(effect.kind, effect.namespace, effect.request):
            key = effect.kind.type_name, where, name
            written = self._writer.written(key)
            created = effect.created_during.get(key)
            if key in effect.shown or written is None:
                continue
            if created is not None and written.uid in ("", created):
                self.summary.missing[CREATED_MEANWHILE] += 1
                continue
            one = Effect(effect.kind, where, name, effect.request, written.uid)
            one.after, one.assumed = effect.after, True
            if not self._versions.was_deleted(one):
                continue
            if effect.kind.type_name in self._numbered:
                self._wait(one, order, written.offset)
            else:
                self._take_turn(one, order)

    def _with_causes(self, effects: list[Effect]) -> Iterator[Effect]:
        """Insert deletes of objects that were created again before the line of the delete.

        Where the log has neither versions nor uids, a create of an object that exists shows that it was deleted before,
        by a request that had arrived and whose line follows later.
        """
        unnumbered = [
            (order, one)
            for order, one in enumerate([*effects, *self._held])
            if one.number is None and one.deletes and one.kind.type_name not in self._numbered
        ]
        causes: dict[Key, list[tuple[int, Effect]]] = {}
        for order, one in unnumbered:
            causes.setdefault(one.key, []).append((order, one))
        exists: dict[Key, bool] = {}
        for order, effect in enumerate(effects):
            if effect.kind.type_name in self._numbered or not effect.name:
                yield effect
                if not effect.name:
                    exists = {key: alive and not effect.covers(key) for key, alive in exists.items()}
                continue
            key = effect.key
            alive = exists.get(key, self._writer.written(key) is not None)
            if effect.request.creates and alive and (cause := _cause(causes, effect, order)) is not None:
                if cause.name:
                    cause.shown.add(key)  # otherwise it could also delete the object that was created here
                yield Effect(*effect.place, cause.request, removed=True, after=cause.after, guessed=True)
            exists[key] = not effect.deletes
            yield effect

    def _use_seen_version(self, effect: Effect, before: int) -> None:
        """Use the version in the response to a delete: newer servers return that of the delete itself."""
        assert effect.seen is not None
        written = self._writer.written(effect.key)
        number, known = effect.seen.number, max(before, 0 if written is None else written.offset)
        if number is not None and 0 < known < number:
            effect.number = number

    # The journal.

    def _add(self, change: Change) -> None:
        self._definitions.prepare(change)
        self._append(change)

    def _append(self, change: Change) -> None:
        known = self._writer.written(change.key)
        self._set_time(change)
        self._definitions.append(change)
        if change.removed:
            self._forget(change.uid if known is None else known.uid)

    def _set_time(self, change: Change) -> None:
        """Bound the time of a change: times never decrease, so one that is too late would delay all after it.

        A long deletecollection deletes some objects long before its response, and returns others that are older still.
        """
        author, time = change.author, self._writer.time or self._first_received
        if author is None:
            change.arrived = time
        elif change.lasted:
            change.author = author._replace(time=max(author.time - change.lasted, min(author.time, time)))

    def _forget(self, uid: str) -> None:
        if not uid:
            return
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _changes(self, effect: Effect) -> Iterator[Change]:
        """The changes of an effect; before the removal of an object not seen before, also one that shows the object.

        The caller writes those with a version before it takes the next one.
        """
        known = self._writer.written(effect.key)
        others = known is not None and known.uid and effect.uid and known.uid != effect.uid
        if effect.uid in self._gone or effect.key in effect.shown or (effect.deletes and others):
            return  # a late line, or a delete of an earlier object of this name
        if effect.assumed and not self._is_selected(effect):
            return
        if effect.change is not None:
            yield from self._returned_change(effect, effect.change)
            return
        existed = self._existed(effect) if known is None and effect.deletes else None
        if existed is None:
            yield from self._resolved(effect, self._content(effect.key))
            return
        effect.removed |= effect.seen is None
        changes = list(self._resolved(effect, decode(existed.body)))
        if not changes:
            return
        if self._has_room(effect, 1 + len(changes)):
            yield existed
            yield from changes
        else:
            yield _first(changes[-1], existed)

    def _returned_change(self, effect: Effect, change: Change) -> Iterator[Change]:
        """The change to the content in a response."""
        if not effect.observed:
            change.author = _author(effect)
            yield change
        elif (change.number or 0) > self._writer.head:
            change.reason = UNLOGGED
            yield change
        elif self._writer.written(effect.key) is None and self._has_room(effect, 1):
            change.reason = BEFORE_LOG
            yield change

    def _existed(self, effect: Effect) -> Change:
        """The change that shows an object which is first seen when it is deleted."""
        if effect.seen is None:
            return self._placeholder(effect, BEFORE_LOG)
        effect.seen.reason = BEFORE_LOG
        return effect.seen

    def _has_room(self, effect: Effect, count: int) -> bool:
        """Whether this many versions are free that no other effect needs."""
        first = self._first_free(effect.after)
        if first + count > effect.before:
            return False
        return self._taken.free_from(first) >= count + self._turns.unresolved

    def _content(self, key: Key) -> Document | None:
        return decode(self._writer.content(key)) if self._writer.written(key) is not None else None

    def _resolved(self, effect: Effect, before: Document | None) -> Iterator[Change]:
        """The changes of an effect whose content is not in a response; none if nothing changed."""
        removed_by_another = self._versions.is_removed_by_another(effect)
        for change in self._contents(effect, before):
            if change.removed and removed_by_another:
                return
            change.author = _author(effect)
            change.version = "" if effect.number is None else str(effect.number)
            if effect.request.verb == "deletecollection":
                change.lasted = effect.request.time - effect.request.received
            yield change

    def _contents(self, effect: Effect, before: Document | None) -> Iterator[Change]:
        assumed = ASSUMED_VERSION if effect.number is None else ""
        assumed = _joined(assumed, ASSUMED_DELETION if effect.assumed else "")
        if effect.removed:
            yield self._unchanged(effect, assumed, removed=True)
            return
        try:
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
                self._placeholder(effect, reason)
                if before is None
                else self._unchanged(effect, reason, removed=False)
            )

    def _of_storage(self, effect: Effect, document: Document) -> Change:
        return stored_change(
            effect.kind, document, effect.request.time, removed=False, with_secrets=self._with_secrets
        )

    def _unchanged(self, effect: Effect, reason: str, *, removed: bool) -> Change:
        """The change with the last known content."""
        return Change(*effect.place, effect.uid, "", removed, b"", b"", effect.request.time, reason)

    def _placeholder(self, effect: Effect, reason: str) -> Change:
        """The content of an object of which only the name is known."""
        metadata = {"name": effect.name, "creationTimestamp": rfc3339(effect.request.received)[:19] + "Z"}
        if effect.kind.namespaced:
            metadata["namespace"] = effect.namespace
        if effect.uid:
            metadata["uid"] = effect.uid
        change = self._of_storage(effect, {"metadata": metadata})
        change.reason = reason if UNKNOWN_CONTENT in reason else _joined(reason, UNKNOWN_CONTENT)
        return change


def _joined(*reasons: str) -> str:
    """Join reasons into one: the writer adds others after `; `."""
    return ", ".join(one.replace(";", ",") for one in reasons if one)


def _version_of_list(returned: Document | None) -> int:
    """The version at which a deletecollection found its objects: it deleted them after that. 0 if it is not there."""
    metadata = {} if returned is None else returned.get("metadata")
    found = number_of(str(metadata.get("resourceVersion", ""))) if isinstance(metadata, dict) else None
    return found or 0


def _selector(request: Request) -> LabelSelector | None:
    """The selectors of a deletecollection; None if they are unknown."""
    if request.query.get("fieldSelector", [""])[0]:
        return None
    try:
        return LabelSelector.parse(request.query.get("labelSelector", [""])[0])
    except BadRequest:
        return None


def _first(change: Change, existed: Change) -> Change:
    """Mark a change as the first event of its object."""
    if not change.body:
        change.body, change.facts, change.alone = existed.body, existed.facts, True
    change.reason = _joined(change.reason, existed.reason)
    return change


def _cause(causes: dict[Key, list[tuple[int, Effect]]], create: Effect, order: int) -> Effect | None:
    """The delete whose line comes after that of a create, and which arrived before the create was complete."""
    type_name, namespace, _ = create.key
    for key in (create.key, (type_name, namespace, ""), (type_name, "", "")):
        found = causes.get(key, ())
        first = bisect_right(found, order, key=lambda one: one[0])
        for _, one in found[first : first + _MOST_CAUSES]:
            if one.request.received <= create.request.time and create.key not in one.shown:
                return one
    return None


def _author(effect: Effect) -> Author:
    request = effect.request
    who = request.user, request.journal_verb, request.manager, request.source, request.time
    return Author(*who, guessed=effect.guessed)


def _kind_name(request: Request) -> str:
    """The kind in the objects; for a subresource, only that of the object itself."""
    for document in (request.returned, request.sent):
        if isinstance(document, dict) and request.subresource in ("", "status"):
            found = document.get("kind")
            if isinstance(found, str) and found not in ("", "Status", "DeleteOptions"):
                return found.removesuffix("List") if request.verb == "deletecollection" else found
    return _assumed_kind(request.resource)


def _assumed_kind(plural: str) -> str:
    """An assumed name of a custom kind, until the log shows an object of it."""
    return plural.removesuffix("s").capitalize()


def _name_in(sent: Any) -> str:
    metadata = sent.get("metadata") if isinstance(sent, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
