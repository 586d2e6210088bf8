"""Records one kind: what exists, then a watch from that version, for as long as the recording lasts.

What exists is a list in pages, or, if the server offers it (WatchList), the beginning of the watch itself: an event for
each object, then a bookmark. The latter is preferred: a real API server sends it from its cache instead of etcd, no
page expires, and nobody holds a page. Where it is refused, or its bookmark does not come, the kind is listed.

A watch that ends is resumed from the last version that it reached. If that has expired (410), or is refused, the kind
is listed again and the differences become changes. After lost connections and with busy servers it retries after
growing pauses.

An object or an event that cannot be handled, for whatever reason, is left out (`left_out`); everything else goes on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final

import orjson
import trio

from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.turns import Turn, in_turns
from rewound.client.errors import ClientError, StatusError
from rewound.client.streaming import MAX_LINE, StreamingSession
from rewound.recording.record.changes import Change, change_of, removal, unread_removal
from rewound.recording.record.gaps import EXPIRED, FAILING, UNLISTED, UNREACHABLE, Gaps
from rewound.recording.record.json_parts import (
    Malformed,
    Unread,
    event_in_parts,
    list_in_parts,
    why_unreadable,
)
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.left_out import LeftOut
from rewound.recording.record.writer import Written

logger = logging.getLogger(__name__)

# Objects of a page of a list: as many as have about PAGE_BYTES.
FIRST_PAGE, SMALLEST_PAGE, LARGEST_PAGE = 100, 10, 1000
PAGE_BYTES: Final = 2 << 20  # parsed, it takes some ten times as much memory
WATCH_SECONDS: Final = 300
# A watch may be silent between two bookmarks, and for longer where the server sends none.
SILENT_SECONDS: Final = WATCH_SECONDS + 30.0
SHORT: Final = 1.0  # seconds; a watch that ends sooner without an event is followed by a pause
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# Of the objects at the beginning of a watch; then the server does not know how to send them.
SILENT_START: Final = 60.0
# The server cannot send them for any kind of a group; after other errors only this kind is listed, this time.
_NO_WATCH_LIST: Final = (400, 422)
_LATER: Final = (401, 429)  # errors that a list would have too
BROKEN_STARTS: Final = 2  # connections lost before the bookmark, until the kind is listed
REFUSED_VERSIONS: Final = 3  # watches from a version that end with an error at once, until the kind is listed
LONGEST_WATCH: Final = 2.0 * WATCH_SECONDS  # a server that sends on and on without an end is asked again
MISSING: Final = "the version of the watch had expired; versions before the list are missing"
_NOT_SERVED: Final = (404, 405)
_NOT_ALLOWED: Final = 403
# A larger page is read item by item; orjson reads a page of this size in some 20 ms.
LARGE_PAGE: Final = 4 << 20
LARGE: Final = 256 << 10  # bytes of an event that threads read
LARGEST_OBJECT: Final = MAX_LINE  # bytes; etcd takes 1.5 MiB, unless its operator raises that
_TOO_LONG: Final = f"its event has more than {MAX_LINE >> 20} MiB"
_LONGEST_VERSION: Final = 128

Document = dict[str, Any]


class Expired(Exception):
    """The version has left the history of the server."""


class ErrorEvent(StatusError):
    """The server has begun a watch, and ended it with an error."""


class BadResponse(ClientError):
    """The server has responded, but not with a list or a watch."""


@dataclass(frozen=True, slots=True)
class WatchLists:
    """Which groups send their objects at the beginning of a watch."""

    offered: bool
    end: str  # the annotation of the bookmark after the objects
    refused: set[str] = field(default_factory=set)  # groups: those of aggregated API servers may differ

    def has(self, group: str) -> bool:
        return self.offered and group not in self.refused

    def refuse(self, group: str, why: str) -> None:
        if not self.refused:  # servers that refuse one refuse nearly all
            logger.info("what exists is listed in pages: %s", why)
        self.refused.add(group)


@dataclass(slots=True)
class KindState:
    kind: RecordedKind
    position: str = ""  # everything up to this version has arrived; empty: it has to be listed
    flushed: str = ""  # the same for what is in the journal
    taken: int = 0  # changes that have arrived; each gets its number
    unwritten: dict[int, None] = field(
        default_factory=dict
    )  # numbers of those that are not in the journal, ascending
    marks: deque[tuple[int, str]] = field(
        default_factory=deque
    )  # positions, and how many changes had arrived then
    # The last version of the objects that exist, by namespace and name; "" if it is not known.
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    listed: bool = False  # the state at the beginning has arrived
    first_list: str = ""  # the version of the first list; empty if there was none
    seen: int = 0  # when the server last sent something of the kind, in microseconds since 1970
    problem: str = ""  # the last error, until the server sends something of the kind

    def advance(self) -> None:
        """Move `flushed` to the newest position of which all changes are in the journal.

        Some changes wait at any time while others arrive: positions are remembered until theirs are written.
        """
        self.mark()
        first = next(iter(self.unwritten), self.taken + 1)
        while self.marks and self.marks[0][0] < first:
            _, self.flushed = self.marks.popleft()

    def mark(self) -> None:
        """Remember the position."""
        if self.position and (not self.marks or self.marks[-1][1] != self.position):
            self.marks.append((self.taken, self.position))


class Follower:
    def __init__(
        self,
        session: StreamingSession,
        state: KindState,
        namespace: str,
        take: Callable[[KindState, Change], Awaitable[None]],
        now: Callable[[], int],
        lists: trio.CapacityLimiter,
        gaps: Gaps,
        written: Callable[[tuple[str, str, str]], Written | None],
        watch_lists: WatchLists,
        left_out: LeftOut,
        *,
        with_secrets: bool,
    ) -> None:
        """`take` stores a change; `now()` is in microseconds since 1970; `lists` limits concurrent lists.

        `written()` is the last event of an object, by type, namespace and name.
        """
        self._session = session
        self._state = state
        self._path = state.kind.path(namespace)
        self._take = take
        self._now = now
        self._lists = lists
        self._gaps = gaps
        self._written = written
        self._watch_lists = watch_lists
        self._left_out = left_out
        self._page = FIRST_PAGE  # objects
        self._initial: _Seen | None = None  # the objects that a watch began with, until all are here
        self._lists_next = False  # the server could not send them
        self._broken_starts = 0
        self._errors = 0  # of the server, since it last sent something of the kind
        self._start = trio.CancelScope()  # ends a watch that is silent before that
        # The last request got no response, perhaps in an earlier run.
        self._lost = gaps.lasts(UNREACHABLE, state.kind.type_name)
        self._expired = 0  # when the kind was last seen before its version expired; 0 while it is complete
        self._with_secrets = with_secrets
        self._pause = FIRST_PAUSE
        self.refusal = ""  # why the user may not read the kind

    async def run(self) -> None:
        """Follow the kind until cancelled, or until the server no longer serves it to this user.

        Without a `refusal`, try again when the kinds of the server have changed.
        """
        state = self._state
        while True:
            try:
                await self._follow()
            except Expired:
                self._expire()
                await self._wait("the version of the watch has expired")
            except StatusError as error:
                if error.code in (*_NOT_SERVED, _NOT_ALLOWED):
                    logger.warning("%s is not recorded: %s", state.kind.type_name, error)
                    if error.code == _NOT_ALLOWED:
                        self.refusal = str(error)
                    return
                self._note_error(error)
                if state.position and self._refuses_version(error):
                    self._expire()
                await self._wait(str(error), error.retry_after or 0)
            except BadResponse as error:
                self._note_error(error)
                await self._wait(str(error))
            except ClientError as error:
                state.problem = str(error)
                self._lost = True
                self._gaps.begin(UNREACHABLE, self._now(), [state.kind.type_name], str(error))
                await self._wait(str(error))

    async def _follow(self) -> None:
        """A list, or a watch until its end."""
        state, began = self._state, trio.current_time()
        if state.position:
            state.listed = True  # by an earlier run
            await self._watch()
        elif self._watch_lists.has(state.kind.group) and not self._lists_next:
            if not await self._watch_from_start():
                return
        else:
            self._lists_next = False
            async with self._lists:
                await self._list()
            return
        self._responded()
        if trio.current_time() - began < SHORT:
            await self._wait("the watch ended at once")

    def _expire(self) -> None:
        """List the kind again."""
        self._expired = self._expired or self._state.seen or self._now()
        self._state.position = ""

    def _refuses_version(self, error: StatusError) -> bool:
        """Whether the error is about the version of the watch, or comes again and again: a list gets another."""
        again = isinstance(error, ErrorEvent) and self._errors >= REFUSED_VERSIONS
        return again or error.code in _NO_WATCH_LIST

    def _note_error(self, error: ClientError) -> None:
        """Note an error of the server; if it comes again, the kind is failing."""
        state = self._state
        state.problem, self._errors = str(error), self._errors + 1
        if self._errors > 1:
            self._gaps.begin(FAILING, self._now(), [state.kind.type_name], str(error))

    def _responded(self) -> None:
        """Note that the server has sent something of the kind."""
        state = self._state
        state.seen = self._now()
        if self._lost:
            self._lost = False
            self._gaps.end(UNREACHABLE, state.seen, state.kind.type_name)
        if self._errors or state.problem:
            self._errors, state.problem = 0, ""
            self._gaps.end(FAILING, state.seen, state.kind.type_name)

    async def _wait(self, why: str, at_least: float = 0) -> None:
        """Pause, longer each time, until an event arrives; `at_least` as long as the server asks for."""
        pause = max(self._pause, at_least)
        logger.info("%s: %s; trying again in %g s", self._state.kind.type_name, why, pause)
        await trio.sleep(pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _list(self) -> None:
        """List all objects in pages; those that were known and are gone become removals."""
        seen = _Seen()
        version, token = "", ""
        self._left_out.begin_list(self._state.kind.type_name)
        while True:
            query = {"limit": str(self._page), **({"continue": token} if token else {})}
            try:
                page = await self._read_page(query)
            except StatusError as error:
                if error.code == 410 and token:
                    # Between two pages: from the start, with fewer of them.
                    self._page = min(2 * self._page, LARGEST_PAGE)
                    raise Expired from None
                raise
            metadata = page.get("metadata")
            if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
                raise BadResponse(f"{self._path}: a list without metadata.resourceVersion")
            version = str(metadata["resourceVersion"])
            await self._take_page(page.pop("items", None) or [], seen)
            self._responded()
            before, token = token, str(metadata.get("continue") or "")
            if not token:
                break
            if token == before:
                raise BadResponse(f"{self._path}: the list does not end: it has the same page twice")
        await self._complete(version, seen)

    async def _read_page(self, query: dict[str, str]) -> Document:
        """A page of the list, with `Unread` in place of the items that cannot be read."""
        body = await self._session.get_bytes(self._path, **query)
        page: Any = None
        try:
            page = orjson.loads(body) if len(body) <= LARGE_PAGE else await in_turns(list_in_parts(body))
        except orjson.JSONDecodeError:
            try:
                page = await in_turns(list_in_parts(body))
            except Malformed as error:
                raise BadResponse(f"{self._path}: a list that cannot be read: {error}") from None
        except Malformed as error:
            raise BadResponse(f"{self._path}: a list that cannot be read: {error}") from None
        if not isinstance(page, dict):
            raise BadResponse(f"{self._path}: it did not respond with a list")
        return page

    async def _take_page(self, items: Any, seen: _Seen) -> None:
        """Take the objects of a page that have changed, and find how many the next one should have."""
        if not isinstance(items, list):
            raise BadResponse(f"{self._path}: a list whose items are none")
        arrived, turn, count, size = self._now(), Turn(), len(items), 0
        items.reverse()
        while items:
            item = items.pop()  # so that its memory is free afterwards
            key = self._unchanged(item)
            if key is not None:
                seen.add(key)
            elif (change := await self._taken(item, arrived, removed=False, seen=seen)) is not None:
                size += len(change.body)
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()
        if size:
            wanted = PAGE_BYTES * count // size
            self._page = max(SMALLEST_PAGE, min(wanted, 2 * self._page, LARGEST_PAGE))

    def _unchanged(self, item: Any) -> tuple[str, str] | None:
        """Namespace and name of an object of a list, if the journal has this version of it."""
        try:
            metadata = item["metadata"]
            key = metadata.get("namespace", "") if self._state.kind.namespaced else "", metadata["name"]
            known = self._written((self._state.kind.type_name, *key))
            if known is None or known.uid != metadata["uid"]:
                return None
            return key if known.version and known.version == metadata["resourceVersion"] else None
        except (KeyError, TypeError, AttributeError):
            return None  # `_taken` says what is wrong

    async def _complete(self, version: str, seen: _Seen) -> None:
        """Everything up to a version has arrived; `seen` are all objects that exist."""
        state = self._state
        # What has no name may be any of them.
        for key in [] if seen.unnamed else sorted(state.names.keys() - seen.keys):
            last = state.names.pop(key)
            await self._store(removal(state.kind, *key, version, self._now(), last))
        self._left_out.end_list(state.kind.type_name, seen.left_out)
        state.position = version
        state.first_list = state.first_list or version
        state.listed = True
        state.mark()
        self._broken_starts = 0
        self._gaps.end(UNLISTED, self._now(), state.kind.type_name)
        if self._expired:
            self._gaps.add(EXPIRED, self._expired, self._now(), state.kind.type_name, MISSING, missing=True)
            self._expired = 0

    async def _watch_from_start(self) -> bool:
        """Take what exists from the beginning of a watch, then its events, until it ends; False: list it.

        As client-go does, it lists after any error but those that a list would have too: to go on is better than to
        ask again for ever.
        """
        await self._lists.acquire_on_behalf_of(self)
        self._initial, self._start = _Seen(), trio.CancelScope(deadline=trio.current_time() + SILENT_START)
        self._left_out.begin_list(self._state.kind.type_name)
        problem = ""
        try:
            with self._start:
                await self._watch()
            problem = "the watch ended before its first bookmark"
            if self._start.cancelled_caught:
                problem = f"no bookmark came within {SILENT_START:g} seconds"
        except Expired:
            if self._initial is None:
                raise
            self._list_instead("the server says that the version has expired")
        except StatusError as error:
            if self._initial is None or not _is_of_watch_list(error):
                raise
            if error.code in _NO_WATCH_LIST:
                problem = str(error)
            else:
                self._list_instead(str(error))
        except ClientError as error:
            if self._initial is not None:
                self._broken_starts += 1
                if self._broken_starts >= BROKEN_STARTS:
                    self._list_instead(str(error))
            raise
        finally:
            complete = self._initial is None
            self._end_initial()
        if not complete and not self._lists_next:
            self._watch_lists.refuse(self._state.kind.group, problem)
        return complete

    def _list_instead(self, why: str) -> None:
        logger.info(
            "%s is listed: the server could not send what exists: %s", self._state.kind.type_name, why
        )
        self._lists_next = True

    def _end_initial(self) -> None:
        if self._initial is not None:
            self._initial, self._start.deadline = None, inf
            self._lists.release_on_behalf_of(self)

    async def _watch(self) -> None:
        """Take events until the watch ends. Raises Expired, StatusError or ClientError."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        longest = inf
        if self._initial is None:
            query["resourceVersion"], longest = self._state.position, LONGEST_WATCH
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            with trio.move_on_after(longest):
                await self._session.read_lines(
                    self._path, SILENT_SECONDS, self._event, self._too_long, **query
                )
        except StatusError as error:
            if error.code == 410:
                raise Expired from None
            raise

    async def _event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line) if len(line) <= LARGE else await run_in_thread(orjson.loads, line)
        except orjson.JSONDecodeError as error:
            event = await self._in_parts(line, why_unreadable(error))
        await self._take_event(event if isinstance(event, dict) else {}, large=len(line) > LARGE)

    async def _too_long(self, beginning: bytes) -> None:
        """Take an event of which only the beginning is here, if anything."""
        await self._take_event(await self._in_parts(beginning, _TOO_LONG, cut=True))
        if not beginning:
            raise Expired  # the watch ends with it, also the next one

    async def _in_parts(self, line: bytes, why: str, *, cut: bool = False) -> Document:
        try:
            return await in_turns(event_in_parts(line, why, cut=cut))
        except Malformed:
            return {"object": Unread({}, why)}

    async def _take_event(self, event: Document, *, large: bool = False) -> None:
        kind, given = event.get("type"), event.get("object")
        if kind == "ERROR":
            raise _error_of(given)
        identity = given.identity if isinstance(given, Unread) else identity_of(given)
        version = identity.get("resourceVersion", "")
        if self._initial is not None:
            if not await self._take_initial(kind, given, version, self._initial):
                return
        else:
            if kind != "BOOKMARK":
                await self._taken(given, self._now(), removed=kind == "DELETED", kind=kind, large=large)
            if not self._advance(version):
                return  # nothing says that the server sends what it should
        self._responded()
        self._pause = FIRST_PAUSE

    def _advance(self, version: str) -> bool:
        """Go on from a version, if it can be one: from another the server would refuse the next watch for ever."""
        state = self._state
        if not version or len(version) > _LONGEST_VERSION or not version.isascii():
            return False
        if state.position.isdecimal() and not version.isdecimal():
            return False
        state.position = version
        return True

    async def _take_initial(self, kind: Any, given: Any, version: str, seen: _Seen) -> bool:
        """Take an event from before the bookmark: an object that exists, or one that has just changed.

        Returns whether it was what it should be.
        """
        self._start.deadline = inf  # a pause here, while the journal is written, is not one of the server
        if kind == "BOOKMARK" and version and _annotation(given, self._watch_lists.end) == "true":
            await self._complete(version, seen)
            self._end_initial()
            return True
        if kind != "BOOKMARK":
            key = self._unchanged(given) if kind == "ADDED" else None
            if key is not None:
                seen.add(key)
            else:
                await self._taken(given, self._now(), removed=kind == "DELETED", seen=seen, kind=kind)
        self._start.deadline = trio.current_time() + SILENT_START
        return bool(version)

    async def _taken(
        self,
        given: Any,
        arrived: int,
        *,
        removed: bool,
        seen: _Seen | None = None,
        kind: Any = "ADDED",
        large: bool = False,
    ) -> Change | None:
        """Take an object, or mark it as left out: then None. `seen` are those of the list that it belongs to.

        A `large` one is read in a thread, because it takes tens of milliseconds.
        """
        state, listed = self._state, seen is not None and kind == "ADDED"
        read = partial(self._change, given, arrived, removed=removed, kind=kind)
        change, why = await run_in_thread(read) if large else read()
        if change is None:
            identity = given.identity if isinstance(given, Unread) else identity_of(given)
            await self._leave_out(identity, arrived, why, removed=removed, seen=seen)
            return None
        change.listed = listed
        key = change.namespace, change.name
        # Also of a list that is not completed: the next one may no longer have the object.
        if removed:
            state.names.pop(key, None)
        else:
            state.names[key] = change.version
        self._left_out.remove(state.kind.type_name, key)
        if seen is not None:
            (seen.discard if removed else seen.add)(key)
        await self._store(change)
        return change

    def _change(self, given: Any, arrived: int, *, removed: bool, kind: Any) -> tuple[Change | None, str]:
        """The change that an object makes; None, with the reason, if it cannot be recorded."""
        if isinstance(given, Unread):
            return None, given.why
        expected = self._state.kind.kind
        if kind not in _CHANGES:
            return None, f"its event has the unknown type {str(kind)[:40]!r}"
        if not isinstance(given, dict):
            return None, "it is no object"
        if given.get("kind", expected) != expected:
            return None, f"it is of another kind than {expected}"
        try:
            change = change_of(
                self._state.kind, given, arrived, removed=removed, with_secrets=self._with_secrets
            )
        except Exception as error:  # of whatever kind: all code for kinds reads it
            return None, _reason(error)
        if len(change.body) > LARGEST_OBJECT:
            return None, f"it has more than {LARGEST_OBJECT >> 20} MiB"
        return change, ""

    async def _leave_out(
        self, identity: dict[str, str], arrived: int, why: str, *, removed: bool, seen: _Seen | None
    ) -> None:
        """Mark an object that cannot be recorded; that it was deleted, or replaced by another, can be."""
        state, type_name = self._state, self._state.kind.type_name
        key = (identity.get("namespace", "") if state.kind.namespaced else "", identity.get("name", ""))
        if not key[1] or (state.kind.namespaced and not key[0]):
            self._left_out.add(type_name, ("", ""), why)
            if seen is not None:
                seen.unnamed = True
                seen.left_out.add(("", ""))
            return
        known = self._written((type_name, *key))
        replaced = known is not None and bool(known.uid) and known.uid != identity.get("uid", known.uid)
        if key in state.names and (removed or replaced):
            last, version = state.names.pop(key), identity.get("resourceVersion", "") if removed else ""
            await self._store(unread_removal(state.kind, *key, version, arrived, last))
        if removed:
            self._left_out.remove(type_name, key)
        else:
            self._left_out.add(type_name, key, why)
        if seen is not None:
            (seen.discard if removed else seen.leave_out)(key)

    async def _store(self, change: Change) -> None:
        state = self._state
        state.taken += 1
        change.sequence = state.taken
        state.unwritten[state.taken] = None
        await self._take(self._state, change)


@dataclass(slots=True)
class _Seen:
    """The objects of a list."""

    keys: set[tuple[str, str]] = field(default_factory=set)
    left_out: set[tuple[str, str]] = field(default_factory=set)  # of these, and what has no name
    unnamed: bool = False  # it has items without a name

    def add(self, key: tuple[str, str]) -> None:
        self.keys.add(key)
        self.left_out.discard(key)

    def discard(self, key: tuple[str, str]) -> None:
        self.keys.discard(key)
        self.left_out.discard(key)

    def leave_out(self, key: tuple[str, str]) -> None:
        self.keys.add(key)
        self.left_out.add(key)


_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")


def identity_of(given: Any) -> dict[str, str]:
    """Name, namespace, uid and version of an object, as far as they are there."""
    metadata = given.get("metadata") if isinstance(given, dict) else None
    if not isinstance(metadata, dict):
        return {}
    found = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}
    if type(version := metadata.get("resourceVersion")) in (str, int):
        found["resourceVersion"] = str(version)
    return {name: one for name, one in found.items() if isinstance(one, str)}


def _error_of(given: Any) -> Exception:
    """The error of an ERROR event, whose object should be a Status."""
    status = given if isinstance(given, dict) else {}
    code = status.get("code")
    if code == 410:
        return Expired()
    reason, message = (
        one if isinstance(one, str) else "" for one in (status.get("reason"), status.get("message"))
    )
    return ErrorEvent(code if type(code) is int else 500, reason, message or "the watch ended with an error")


def _is_of_watch_list(error: StatusError) -> bool:
    """Whether a list may succeed where the beginning of a watch has failed."""
    return error.retry_after is None and error.code not in (*_LATER, *_NOT_SERVED, _NOT_ALLOWED)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deep"
    text = str(error)
    if isinstance(error, KeyError):
        return f"it lacks {text[:100]}"
    if "object" in text and isinstance(error, AttributeError | TypeError):
        return f"a field has a type that its kind does not have ({text[:100]})"
    return (text or type(error).__name__)[:200]


def _annotation(given: Any, name: str) -> Any:
    metadata = given.get("metadata") if isinstance(given, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations.get(name) if isinstance(annotations, dict) else None
