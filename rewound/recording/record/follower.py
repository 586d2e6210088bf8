"""Records one kind: what exists, then a watch from that version, for as long as the recording lasts.

What exists is a list in pages, or, if the server offers it (WatchList), the beginning of the watch itself: an event for
each object, then a bookmark. The latter is preferred: a real API server sends it from its cache instead of etcd, no
page expires, and nobody holds a page. Where it is refused, or its bookmark does not come, the kind is listed.

A watch that ends is resumed from the last version that it reached. If that has expired (410), the kind is listed again
and the differences become changes. After lost connections and with busy servers it retries after growing pauses.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import orjson
import trio

from rewound.actors.runtime.turns import Turn
from rewound.client.errors import ClientError, StatusError
from rewound.client.streaming import StreamingSession
from rewound.recording.record.changes import Change, change_of, removal
from rewound.recording.record.gaps import EXPIRED, UNREACHABLE, Gaps
from rewound.recording.record.kinds import RecordedKind
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
_NO_WATCH_LIST: Final = (400, 422)
MISSING: Final = "the version of the watch had expired; versions before the list are missing"
_NOT_SERVED: Final = (404, 405)
_NOT_ALLOWED: Final = 403

Document = dict[str, Any]


class Expired(Exception):
    """The version has left the history of the server."""


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
        self._page = FIRST_PAGE  # objects
        self._initial: set[tuple[str, str]] | None = (
            None  # the objects that a watch began with, until all are here
        )
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
                began = trio.current_time()
                if state.position:
                    state.listed = True  # by an earlier run
                    await self._watch()
                elif self._watch_lists.has(state.kind.group):
                    if not await self._watch_from_start():
                        continue
                else:
                    async with self._lists:
                        await self._list()
                    continue
                self._responded()
                if trio.current_time() - began < SHORT:
                    await self._wait("the watch ended at once")
            except Expired:
                self._expired = self._expired or state.seen or self._now()
                state.position = ""
                await self._wait("the version of the watch has expired")
            except StatusError as error:
                if error.code in (*_NOT_SERVED, _NOT_ALLOWED):
                    logger.warning("%s is not recorded: %s", state.kind.type_name, error)
                    if error.code == _NOT_ALLOWED:
                        self.refusal = str(error)
                    return
                await self._wait(str(error), error.retry_after or 0)
            except ClientError as error:
                self._lost = True
                self._gaps.begin(UNREACHABLE, self._now(), [state.kind.type_name], str(error))
                await self._wait(str(error))

    def _responded(self) -> None:
        """Note that the server has sent something of the kind."""
        self._state.seen = self._now()
        if self._lost:
            self._lost = False
            self._gaps.end(UNREACHABLE, self._state.seen, self._state.kind.type_name)

    async def _wait(self, why: str, at_least: float = 0) -> None:
        """Pause, longer each time, until an event arrives; `at_least` as long as the server asks for."""
        pause = max(self._pause, at_least)
        logger.info("%s: %s; trying again in %g s", self._state.kind.type_name, why, pause)
        await trio.sleep(pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _list(self) -> None:
        """List all objects in pages; those that were known and are gone become removals."""
        seen = set[tuple[str, str]]()
        version, token = "", ""
        while True:
            query = {"limit": str(self._page), **({"continue": token} if token else {})}
            try:
                page = await self._session.get_document(self._path, **query)
            except StatusError as error:
                if error.code == 410 and token:
                    # Between two pages: from the start, with fewer of them.
                    self._page = min(2 * self._page, LARGEST_PAGE)
                    raise Expired from None
                raise
            self._responded()
            metadata = page.get("metadata")
            if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
                raise ClientError(f"{self._path}: a list without metadata.resourceVersion")
            version = str(metadata["resourceVersion"])
            await self._take_page(page.pop("items", None) or [], seen)
            before, token = token, str(metadata.get("continue") or "")
            if not token:
                break
            if token == before:
                raise ClientError(f"{self._path}: the list does not end: it has the same page twice")
        await self._complete(version, seen)

    async def _take_page(self, items: Any, seen: set[tuple[str, str]]) -> None:
        """Take the objects of a page that have changed, and find how many the next one should have."""
        if not isinstance(items, list):
            raise ClientError(f"{self._path}: a list whose items are none")
        arrived, turn, count, size = self._now(), Turn(), len(items), 0
        items.reverse()
        while items:
            item = items.pop()  # so that its memory is free afterwards
            key = self._unchanged(item)
            if key is None:
                change = await self._taken(item, arrived, removed=False, listed=True)
                key, size = (change.namespace, change.name), size + len(change.body)
            seen.add(key)
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

    async def _complete(self, version: str, seen: set[tuple[str, str]]) -> None:
        """Everything up to a version has arrived; `seen` are all objects that exist."""
        state = self._state
        for key in sorted(state.names.keys() - seen):
            last = state.names.pop(key)
            await self._store(removal(state.kind, *key, version, self._now(), last))
        state.position = version
        state.first_list = state.first_list or version
        state.listed = True
        state.mark()
        if self._expired:
            self._gaps.add(EXPIRED, self._expired, self._now(), state.kind.type_name, MISSING, missing=True)
            self._expired = 0

    async def _watch_from_start(self) -> bool:
        """Take what exists from the beginning of a watch, then its events, until it ends; False: list it."""
        state = self._state
        await self._lists.acquire_on_behalf_of(self)
        self._initial, self._start = set(), trio.CancelScope(deadline=trio.current_time() + SILENT_START)
        problem = "the watch ended before its first bookmark"
        try:
            with self._start:
                await self._watch()
            if self._start.cancelled_caught:
                problem = f"no bookmark came within {SILENT_START:g} seconds"
        except StatusError as error:
            if self._initial is None or error.code not in _NO_WATCH_LIST:
                raise
            problem = str(error)
        finally:
            complete = self._initial is None
            self._end_initial()
        if not complete:
            self._watch_lists.refuse(state.kind.group, problem)
        return complete

    def _end_initial(self) -> None:
        if self._initial is not None:
            self._initial, self._start.deadline = None, inf
            self._lists.release_on_behalf_of(self)

    async def _watch(self) -> None:
        """Take events until the watch ends. Raises Expired, StatusError or ClientError."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        if self._initial is None:
            query["resourceVersion"] = self._state.position
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._session.read_lines(self._path, SILENT_SECONDS, self._event, **query)
        except StatusError as error:
            if error.code == 410:
                raise Expired from None
            raise

    async def _event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            kind, given = event["type"], event["object"]
            if kind == "ERROR":
                if given.get("code") == 410:
                    raise Expired
                raise StatusError(given.get("code", 500), given.get("reason", ""), given.get("message", ""))
            expected = self._state.kind.kind
            if given.get("kind", expected) != expected:
                raise TypeError(f"an object of another kind than {expected}")
            version = str(given["metadata"]["resourceVersion"])
            if self._initial is not None:
                await self._initial_event(kind, given, version, self._initial)
            else:
                if kind != "BOOKMARK":
                    await self._taken(given, self._now(), removed=kind == "DELETED")
                self._state.position = version
            self._responded()
            self._pause = FIRST_PAUSE
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ClientError(f"{self._path}: a watch event cannot be read ({error!r})") from error

    async def _initial_event(
        self, kind: str, given: Document, version: str, seen: set[tuple[str, str]]
    ) -> None:
        """Take an event from before the bookmark: an object that exists, or one that has just changed."""
        self._start.deadline = inf  # a pause here, while the journal is written, is not one of the server
        if kind == "BOOKMARK" and _annotation(given, self._watch_lists.end) == "true":
            await self._complete(version, seen)
            self._end_initial()
            return
        if kind != "BOOKMARK":
            key = self._unchanged(given) if kind == "ADDED" else None
            if key is None:
                change = await self._taken(
                    given, self._now(), removed=kind == "DELETED", listed=kind == "ADDED"
                )
                key = change.namespace, change.name
            (seen.discard if kind == "DELETED" else seen.add)(key)
        self._start.deadline = trio.current_time() + SILENT_START

    async def _taken(self, given: Document, arrived: int, *, removed: bool, listed: bool = False) -> Change:
        try:
            change = change_of(
                self._state.kind, given, arrived, removed=removed, with_secrets=self._with_secrets
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ClientError(f"{self._path}: an object cannot be read ({error!r})") from error
        change.listed = listed
        # Also of a list that is not completed: the next one may no longer have the object.
        if removed:
            self._state.names.pop((change.namespace, change.name), None)
        else:
            self._state.names[change.namespace, change.name] = change.version
        await self._store(change)
        return change

    async def _store(self, change: Change) -> None:
        state = self._state
        state.taken += 1
        change.sequence = state.taken
        state.unwritten[state.taken] = None
        await self._take(self._state, change)


def _annotation(given: Document, name: str) -> Any:
    return (given["metadata"].get("annotations") or {}).get(name)
