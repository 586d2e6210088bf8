"""Gets and lists, directly from the journal: no actor, no parsing, bytes as stored.

Every result comes from one consistent state: the current one, or exactly an older version, back to the `Horizon`. A
list is read in turns (`ListReader`), so that a long one does not block other requests; a continue token (`Token`) is
the position at which its next page starts.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Protocol

import msgspec
import orjson
import trio

from rewound.actors.errors import BadRequest, Expired, NoJson, VersionTooLarge
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.outside import outside
from rewound.actors.runtime.turns import ProcessorTurn, next_turn
from rewound.actors.selectors import FieldSelector, LabelSelector, search
from rewound.actors.store.feed import Feed
from rewound.actors.store.stored_json import Comparison, StoredJson, is_json_object
from rewound.journal import keys
from rewound.journal.errors import Compacted, FutureVersion
from rewound.journal.log import Journal
from rewound.journal.records import Row
from rewound.journal.replay import PastView
from rewound.journal.search import Match, Search
from rewound.journal.state import FindKeys, Page, Stop
from rewound.journal.view import View

# How long a read waits for a version that this server has not reached, before it raises VersionTooLarge.
VERSION_WAIT = 3.0

TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


class ListOptions(msgspec.Struct, frozen=True):
    """As the client sent them; `gateway.pipeline.options` has validated the combination."""

    resource_version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    at: int | None = None  # a version of the retained journal, however old; None: use resource_version


class Reads:
    def __init__(
        self, journal: Journal, feed: Feed, horizon: Horizon, clock: Clock, rules: Rules = DOCUMENTED
    ) -> None:
        self._journal = journal
        self._unread = rules.last_page == "unread"
        self._feed = feed
        self._horizon = horizon
        self._clock = clock
        self._stored = StoredJson()
        if journal.is_copy:
            feed.follow(self._stored.forget)

    async def wait_for_version(self, version: str) -> None:
        """Wait until this server has reached a version, before the current state is read."""
        if version not in ("", "0"):
            await self._wait_for(parse_version(version))

    def check_reached(self, options: ListOptions) -> None:
        """Raise VersionTooLarge if the list asks for a version that this server has not reached."""
        version = options.resource_version
        wanted = parse_token(options.token).version if options.token else parse_version(version or "0")
        if wanted > self._feed.head:
            raise VersionTooLarge(wanted, self._feed.head)

    def get(self, definition: Definition, namespace: str, name: str) -> bytes:
        journal = self._journal
        type_id = journal.type_id(definition.type_name)
        body = journal.body(type_id, namespace, name)
        if body is None:
            raise definition.not_found(name)
        if not self._stored.is_checked(type_id, namespace) and not is_json_object(body):
            raise NoJson(definition.resource, name)
        return body

    def get_at(self, definition: Definition, namespace: str, name: str, version: int) -> bytes:
        """An object as it was at a version of the retained journal."""
        with self._journal.read() as view:
            type_id = self._journal.type_id(definition.type_name)
            row = state_at(view, version).get(type_id, namespace, name)
            key = None if row is not None else keys.find_object(type_id, namespace, name)
            if key is not None and version < (upto := view.cut_of(key)):
                raise Expired(
                    f'versions of {definition.resource} "{name}" before {upto} were dropped to keep --max-disk; ask '
                    "for a later one"
                )
        if row is None:
            raise definition.not_found(name)
        if not is_json_object(row.body):
            raise NoJson(definition.resource, name)
        return row.body

    async def listing(self, definition: Definition, namespace: str | None, options: ListOptions) -> Listing:
        """A whole list, or as much as its limit allows."""
        found = await self.open(definition, namespace, options)
        return found if isinstance(found, Listing) else await found.read_all()

    async def open(
        self, definition: Definition, namespace: str | None, options: ListOptions
    ) -> ListReader | Listing:
        """Start to read a list; one that needs no scan is complete at once."""
        wanted = search(options.labels, options.fields)
        if options.at is not None:
            return self._open_at(definition, namespace, options, wanted, options.at)
        if options.token:
            start = await self._continue(definition, namespace, options, wanted)
            return self._reader(definition, namespace, options, wanted, start)
        exact = await self._starting_version(definition, options)
        name = options.fields.exact("metadata.name") if options.fields else None
        if name is not None and (namespace is not None or not definition.namespaced):
            return self._single(definition, namespace or "", name, wanted, exact)
        start = Start(exact, None, None if wanted is None else -1)
        return self._reader(definition, namespace, options, wanted, start)

    def _open_at(
        self,
        definition: Definition,
        namespace: str | None,
        options: ListOptions,
        wanted: Search | None,
        version: int,
    ) -> ListReader | Listing:
        """A list at a version, which may be older than the watch history: only retention limits it."""
        if options.token:
            token = _token_in(namespace, options.token)
            if token.version != version:
                raise BadRequest(
                    f"continue key is not valid: it belongs to a list at another version than {version}"
                )
            start = Start(version, token, token.remaining if wanted is None else -1)
            return self._reader(definition, namespace, options, wanted, start)
        name = options.fields.exact("metadata.name") if options.fields else None
        if name is not None and (namespace is not None or not definition.namespaced):
            return self._single(definition, namespace or "", name, wanted, version)
        start = Start(version, None, None if wanted is None else -1)
        return self._reader(definition, namespace, options, wanted, start)

    def _reader(
        self,
        definition: Definition,
        namespace: str | None,
        options: ListOptions,
        wanted: Search | None,
        start: Start,
    ) -> ListReader:
        type_id = self._journal.type_id(definition.type_name)
        unread = self._unread and wanted is not None
        return ListReader(
            self._journal,
            self._clock,
            type_id,
            namespace,
            options.limit,
            wanted,
            start,
            unread=unread,
            stored=self._stored,
            plural=definition.plural,
        )

    def _single(
        self, definition: Definition, namespace: str, name: str, wanted: Search | None, version: int | None
    ) -> Listing:
        """A list with a field selector for one name, as sent by clients that wait for one object: no scan."""
        with self._journal.read() as view:
            state: VersionedState = view if version is None else state_at(view, version)
            row = state.get(self._journal.type_id(definition.type_name), namespace, name)
            version = view.head if version is None else version
        found = (
            row is not None
            and is_json_object(row.body)
            and (wanted is None or wanted.match(row.facts, row.body))
        )
        return Listing([row.body] if row is not None and found else [], version)

    async def _starting_version(self, definition: Definition, options: ListOptions) -> int | None:
        """The exact version that the list reads, or None for the current one."""
        if options.resource_version in ("", "0"):
            return None
        version = parse_version(options.resource_version)
        await self._wait_for(version)
        if options.match == "Exact" or (options.limit and options.match != "NotOlderThan"):
            if version < self._horizon.floor(definition.type_name):
                raise Expired(VERSION_TOO_OLD)
            return version
        return None

    async def _continue(
        self, definition: Definition, namespace: str | None, options: ListOptions, wanted: Search | None
    ) -> Start:
        token = _token_in(namespace, options.token)
        if token.version == CURRENT:
            return Start(None, token, None if wanted is None and options.limit > 0 else -1)
        await self._wait_for(token.version)
        expired = self._clock.now() - token.issued > self._horizon.window(definition.type_name)
        if expired or token.version < self._horizon.floor(definition.type_name):
            raise Expired(TOKEN_TOO_OLD, fresh=str(_fresh(token)))
        return Start(token.version, token, token.remaining if wanted is None else -1)

    def token_after(self, version: int, namespace: str, name: str) -> str:
        """A token to continue a list after one of its objects, for a caller that did not use the whole page."""
        return str(Token(version, self._clock.now(), namespace, name, -1))

    async def _wait_for(self, version: int) -> None:
        if version > self._feed.head:
            await outside(self._reach(version))

    async def _reach(self, version: int) -> None:
        with trio.move_on_after(VERSION_WAIT):
            await self._feed.reached(version)
            return
        raise VersionTooLarge(version, self._feed.head)


def _token_in(namespace: str | None, text: str) -> Token:
    """The token of a list of this namespace, or of all. Raises BadRequest if it is for another namespace."""
    token = parse_token(text)
    if namespace is not None and token.namespace != namespace:
        raise BadRequest("continue key is not valid: it belongs to a list of another namespace")
    return token


def _fresh(token: Token) -> Token:
    return Token(CURRENT, token.issued, token.namespace, token.after, -1)


def parse_version(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 20:
        raise BadRequest(
            f"resourceVersion: Invalid value: {quoted_start(text)}: "
            "must be a version that this API gave, or 0, or left out"
        )
    return int(text)


# Rows per step, even if they take little time: they stay in memory until the client has read them.
BATCH_ROWS = 2500

VERSION_TOO_OLD = "The resourceVersion for the provided list is too old."


class VersionedState(Protocol):
    """The current state or an older one; both have the same interface."""

    def get(self, type_id: int, namespace: str, name: str) -> Row | None: ...

    def count(self, type_id: int, namespace: str | None = None) -> int: ...

    def page(
        self,
        type_id: int,
        namespace: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int | None = None,
        match: Match | None = None,
        stop: Stop | None = None,
        size: int | None = None,
        find: FindKeys | None = None,
    ) -> Page: ...


class Listing(msgspec.Struct, frozen=True):
    bodies: list[bytes]
    version: int
    token: str = ""
    remaining: int = 0  # 0: complete, or unknown


class Start(msgspec.Struct, frozen=True):
    """Where a list begins."""

    version: int | None  # None: the current one
    token: Token | None
    remaining: int | None  # items after this point; None: not yet counted, -1: unknown

    @property
    def after(self) -> tuple[str, str] | None:
        return (self.token.namespace, self.token.after) if self.token else None


class ListReader:
    """Reads a list in turns: each step is one read transaction and a few milliseconds of work, all at one version.

    `Reads.open` creates a `ListReader`. Between two steps its caller waits for its next turn, or until the client has
    read the previous rows. Steps after the first read the version of the first, as the pages of a client do. A step may
    return nothing although the list continues: a selector may not match for long, and an old version is rebuilt in
    steps too.
    """

    __slots__ = (
        "_after",
        "_clock",
        "_count",
        "_counted",
        "_counted_to",
        "_journal",
        "_limit",
        "_more",
        "_namespace",
        "_plural",
        "_search",
        "_start",
        "_stored",
        "_type_id",
        "_unread",
        "_version",
        "complete",
        "total",
    )

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        type_id: int,
        namespace: str | None,
        limit: int,
        search: Search | None,
        start: Start,
        *,
        unread: bool = False,
        stored: StoredJson,
        plural: str,
    ) -> None:
        """`unread`: a full page has a next one if any object follows, whether it matches or not."""
        self._journal = journal
        self._unread = unread
        self._clock = clock
        self._type_id = type_id
        self._namespace = namespace
        self._limit = limit
        self._search = search
        self._start = start
        self._stored = stored
        self._plural = plural
        self._version = start.version
        self._after = start.after
        self.total = start.remaining  # as in `Start`, set by the first step
        self._counted, self._counted_to = 0, start.after
        self._count = 0
        self._more = True
        self.complete = False  # everything has been read, or as much as the limit allows

    @property
    def version(self) -> int:
        assert self._version is not None, "no step has been taken"
        return self._version

    @property
    def limited(self) -> bool:
        return self._limit > 0

    @property
    def expected(self) -> int | None:
        """How many objects the list will have, after the first step; None if unknown."""
        if self.total is None or self.total < 0:
            return None
        return min(self.total, self._limit) if self._limit > 0 else self.total

    def rewind(self) -> None:
        """Read again from the start, at the same version."""
        self._after = self._start.after
        self._count = 0
        self._more, self.complete = True, False

    def step(self, size: int | None = None) -> list[bytes]:
        """Read the next objects, at most about `size` bytes. Raises Expired if the version is too old by now."""
        turn = ProcessorTurn()
        left = self._limit - self._count
        wanted = min(left, BATCH_ROWS) if self._limit > 0 else BATCH_ROWS
        with self._journal.read() as view:
            find: FindKeys | None = None
            if self._search is not None:
                ready, find = self._journal.columns.step(
                    view, self._type_id, self._namespace, self._search, turn.over
                )
                if not ready:
                    return []
            state = self._state(view, turn.over)
            if state is None:
                return []
            if self._version is None:
                self._version = view.head
            if self.total is None and not self._count_total(state, turn.over):
                return []
            match = self._match(state is view)
            page = state.page(
                self._type_id,
                self._namespace,
                after=self._after,
                limit=wanted,
                match=match,
                stop=turn.over,
                size=size,
                find=find,
            )
            if isinstance(match, Comparison):
                self._compared(match, state, page, latest=state is view)
            self._count += len(page.bodies)
            self._more = page.more
            self._after = page.last or self._after
            full = 0 < self._limit <= self._count
            if full and self._unread and not page.more:
                rest = state.page(self._type_id, self._namespace, after=self._after, limit=1)
                self._more = bool(rest.bodies)
        self.complete = not page.more or (full and (self._unread or not page.stopped))
        return page.bodies

    def _match(self, latest: bool) -> Match | None:
        """The comparison of each object. Older states may have objects that the latest lacks."""
        match = None if self._search is None else self._search.match
        if latest and self._stored.is_checked(self._type_id, self._namespace):
            return match
        return Comparison(match)

    def _compared(self, comparison: Comparison, state: View | PastView, page: Page, *, latest: bool) -> None:
        if comparison.failed:
            rows = state.rows(self._type_id, self._namespace, self._after)
            self._stored.report(rows, self._plural, comparison.failed)
        elif latest and self._search is None and (page.last is not None or not page.more):
            last = page.last if page.more else None
            self._stored.passed(self._type_id, self._namespace, self._after, last)

    def _count_total(self, state: VersionedState, stop: Stop) -> bool:
        """Count the items of the list; False if that has to continue in the next step.

        The state knows the total. The items after a position must be counted. A list that continues at the current
        version after its token expired does so once, and puts the number into its further tokens.
        """
        if self._counted_to is None:
            self.total = state.count(self._type_id, self._namespace)
            return True
        page = state.page(
            self._type_id, self._namespace, after=self._counted_to, match=self._count_one, stop=stop
        )
        if page.more:
            self._counted_to = page.last
            return False
        self.total = self._counted
        return True

    def _count_one(self, facts: bytes, body: bytes) -> bool:
        self._counted += 1
        return False

    def _state(self, view: View, stop: Stop) -> View | PastView | None:
        """The state to read; None while it is being rebuilt."""
        version = view.head if self._version is None else self._version
        if version == view.head and view.is_newest:
            return view
        self._version = version  # a replay may advance while its state is rebuilt
        past = state_at(view, version)
        return past if isinstance(past, View) or past.prepare(self._type_id, stop) else None

    async def read(self, size: int | None = None) -> list[bytes]:
        """Take steps until there is at least one object, or none is left."""
        while not (bodies := self.step(size)) and not self.complete:
            await next_turn()
        return bodies

    async def read_all(self) -> Listing:
        bodies = self.step()
        while not self.complete:
            await next_turn()
            bodies += self.step()
        return self.listing(bodies)

    def listing(self, bodies: list[bytes]) -> Listing:
        """The given bodies with the metadata of the whole list, which must be complete."""
        if not self._more or self._after is None:
            return Listing(bodies, self.version)
        total, start = self.total, self._start
        remaining = -1 if total is None or total < 0 else total - self._count
        issued = start.token.issued if start.token and start.token.version != CURRENT else self._clock.now()
        token = Token(self.version, issued, *self._after, remaining)
        return Listing(bodies, self.version, str(token), max(remaining, 0))


def state_at(view: View, version: int) -> View | PastView:
    try:
        return view.at(version)
    except (Compacted, FutureVersion):
        raise Expired(VERSION_TOO_OLD) from None  # in the future: a replay went back since the list began


CURRENT = -1


class Token(msgspec.Struct, frozen=True):
    """A continue token: the position at which a paged list continues, and the resourceVersion of all its pages.

        {"v": 12, "t": 1700000000000000, "n": "default", "a": "web-3", "r": 41}   as base64url JSON

    v: version of the first page, or -1 for the current one (in the token of a 410 response); t: when the first page was
    read, in microseconds: a token is valid as long as the watch history; n, a: namespace and name of the last item of
    the page; r: number of items after it, or -1 if a selector makes that unknown. Opaque to clients, but not secret:
    every page is authorized like the first.
    """

    version: int
    issued: int
    namespace: str
    after: str
    remaining: int

    def __str__(self) -> str:
        short = {
            "v": self.version,
            "t": self.issued,
            "n": self.namespace,
            "a": self.after,
            "r": self.remaining,
        }
        return base64.urlsafe_b64encode(orjson.dumps(short)).rstrip(b"=").decode()


_TYPES = {"v": int, "t": int, "n": str, "a": str, "r": int}


def parse_token(text: str) -> Token:
    try:
        fields = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest("continue key is not valid: it is not a token that this server made") from None
    if not isinstance(fields, dict) or any(type(fields.get(key)) is not kind for key, kind in _TYPES.items()):
        raise BadRequest("continue key is not valid: it is incomplete; start the list again without it")
    if fields["v"] < CURRENT or fields["v"] == 0 or not fields["a"]:
        raise BadRequest("continue key is not valid: incorrect encoded start resourceVersion")
    return Token(*(fields[key] for key in _TYPES))


# Finding the floor takes a binary search in the journal; a window of minutes does not need it fresher than this.
FRESH_FOR = 200_000  # microseconds


class Horizon:
    """The oldest resourceVersion that watches, exact lists and continue tokens may use: the watch history, in offsets.

    `floor()` is the newest version at the start of the window. Requests for older versions get 410, even though the
    journal may still have them for debugging. A type may have a window of its own, and dropped events (`forget`).
    """

    def __init__(
        self, journal: Journal, clock: Clock, window: int, windows: Mapping[str, int] | None = None
    ) -> None:
        """Windows in microseconds; `windows` those of types."""
        self._journal = journal
        self._clock = clock
        self._window, self._windows = window, windows or {}
        self._floors: dict[int, tuple[int, int]] = {}  # by window: the floor, and when it was found

    def window(self, type_name: str = "") -> int:
        return self._windows.get(type_name, self._window)

    def floor(self, type_name: str = "") -> int:
        window, now = self.window(type_name), self._clock.now()
        floor, found_at = self._floors.get(window, (0, -FRESH_FOR))
        if now - found_at >= min(FRESH_FOR, window // 10):
            with self._journal.read() as view:
                floor = max(floor, view.offset_at(now - window), view.floor)
            self._floors[window] = floor, now
        return max(floor, self._forgotten(type_name))

    def _forgotten(self, type_name: str) -> int:
        """Up to where removals of the type's objects were dropped, which a watch would miss."""
        if not type_name:
            return 0
        with self._journal.read() as view:
            mark = view.thinned.get(self._journal.type_id(type_name))
        return mark.upto if mark is not None and mark.whole else 0
