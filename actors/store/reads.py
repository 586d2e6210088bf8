"""Gets and lists, directly from the journal: no actor, no parsing, bytes as stored.

Every result comes from one consistent state: the current one, or exactly an older version. A list without a limit is
read in batches, so that a long one does not block other requests; batches after the first read the version of the
first, as the pages of a client do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from actors.clock import Clock
from actors.errors import BadRequest, Expired, VersionTooLarge
from actors.kinds.declaration.definition import Definition
from actors.selectors import FieldSelector, LabelSelector, matcher
from actors.store.addressing import not_found
from actors.store.continue_token import CURRENT, Token, parse_token
from actors.store.feed import Feed
from actors.store.horizon import Horizon
from journal.errors import Compacted
from journal.log import Journal
from journal.records import Row
from journal.state import Page
from journal.view import View

# How long a read waits for a version that this server has not reached, before it raises VersionTooLarge.
VERSION_WAIT = 3.0
# About three milliseconds of work between two checkpoints.
BATCH_ROWS = 2500

VERSION_TOO_OLD = "The resourceVersion for the provided list is too old."
TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)

Match = Callable[[bytes], bool]


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
    ) -> Page: ...


@dataclass(frozen=True, slots=True)
class ListOptions:
    """As the client sent them; `actors.resource.options` has validated the combination."""

    resource_version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    bodies: list[bytes]
    version: int
    token: str = ""
    remaining: int = 0  # 0: complete, or unknown


class Reads:
    def __init__(self, journal: Journal, feed: Feed, horizon: Horizon, clock: Clock) -> None:
        self._journal = journal
        self._feed = feed
        self._horizon = horizon
        self._clock = clock

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
        body = journal.body(journal.type_id(definition.type_name), namespace, name)
        if body is None:
            raise not_found(definition, name)
        return body

    async def listing(self, definition: Definition, namespace: str | None, options: ListOptions) -> Listing:
        match = matcher(options.labels, options.fields)
        if options.token:
            return await self._continue(definition, namespace, options, match)
        exact = await self._starting_version(options)
        name = options.fields.exact("metadata.name") if options.fields else None
        if name is not None and (namespace is not None or not definition.namespaced):
            return self._single(definition, namespace or "", name, match, exact)
        start = _Start(exact, None, None if match is None else -1)
        return await self._read(definition, namespace, options.limit, match, start)

    def _single(
        self, definition: Definition, namespace: str, name: str, match: Match | None, version: int | None
    ) -> Listing:
        """A list with a field selector for one name, as clients that wait for one object send: no scan."""
        with self._journal.read() as view:
            row = self._state(view, version).get(self._journal.type_id(definition.type_name), namespace, name)
            version = view.head if version is None else version
        found = row is not None and (match is None or match(row.facts))
        return Listing([row.body] if row is not None and found else [], version)

    async def _starting_version(self, options: ListOptions) -> int | None:
        """The exact version that the list reads, or None for the current one."""
        if options.resource_version in ("", "0"):
            return None
        version = parse_version(options.resource_version)
        await self._wait_for(version)
        if options.match == "Exact" or (options.limit and options.match != "NotOlderThan"):
            if version < self._horizon.floor():
                raise Expired(VERSION_TOO_OLD)
            return version
        return None

    async def _continue(
        self, definition: Definition, namespace: str | None, options: ListOptions, match: Match | None
    ) -> Listing:
        token = parse_token(options.token)
        if namespace is not None and token.namespace != namespace:
            raise BadRequest("continue key is not valid: it belongs to a list of another namespace")
        if token.version == CURRENT:
            start = _Start(None, token, -1)
            return await self._read(definition, namespace, options.limit, match, start)
        await self._wait_for(token.version)
        expired = self._clock.now() - token.issued > self._horizon.window
        if expired or token.version < self._horizon.floor():
            raise Expired(TOKEN_TOO_OLD, fresh=str(_fresh(token)))
        remaining = token.remaining if match is None else -1
        start = _Start(token.version, token, remaining)
        return await self._read(definition, namespace, options.limit, match, start)

    async def _read(
        self, definition: Definition, namespace: str | None, limit: int, match: Match | None, start: _Start
    ) -> Listing:
        type_id = self._journal.type_id(definition.type_name)
        bodies: list[bytes] = []
        version, after, more, total = start.version, start.after, True, start.remaining
        while more:
            wanted = min(limit - len(bodies), BATCH_ROWS) if limit > 0 else BATCH_ROWS
            with self._journal.read() as view:
                state = self._state(view, version)
                version = view.head if version is None else version
                if total is None:
                    total = state.count(type_id, namespace)
                page = state.page(type_id, namespace, after=after, limit=wanted, match=match)
            bodies += page.bodies
            more, after = page.more, page.last
            if limit > 0 and len(bodies) >= limit:
                break
            if more:
                await trio.lowlevel.checkpoint()
        assert version is not None
        if not more or after is None:
            return Listing(bodies, version)
        return self._with_token(bodies, version, after, total, start)

    def _with_token(
        self, bodies: list[bytes], version: int, after: tuple[str, str], total: int | None, start: _Start
    ) -> Listing:
        remaining = -1 if total is None or total < 0 else total - len(bodies)
        issued = start.token.issued if start.token and start.token.version != CURRENT else self._clock.now()
        token = Token(version, issued, after[0], after[1], remaining)
        return Listing(bodies, version, str(token), max(remaining, 0))

    def _state(self, view: View, version: int | None) -> VersionedState:
        if version is None or version == view.head:
            return view
        try:
            return view.at(version)
        except Compacted:
            raise Expired(VERSION_TOO_OLD) from None

    def token_after(self, version: int, namespace: str, name: str) -> str:
        """A token to continue a list after one of its objects, for a caller that did not use the whole page."""
        return str(Token(version, self._clock.now(), namespace, name, -1))

    async def _wait_for(self, version: int) -> None:
        if version <= self._feed.head:
            return
        with trio.move_on_after(VERSION_WAIT):
            await self._feed.reached(version)
            return
        raise VersionTooLarge(version, self._feed.head)


@dataclass(frozen=True, slots=True)
class _Start:
    version: int | None  # None: the current one
    token: Token | None
    remaining: int | None  # items after this point; None: not yet counted, -1: unknown

    @property
    def after(self) -> tuple[str, str] | None:
        return (self.token.namespace, self.token.after) if self.token else None


def _fresh(token: Token) -> Token:
    return Token(CURRENT, token.issued, token.namespace, token.after, -1)


def parse_version(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 20:
        raise BadRequest(
            f'resourceVersion: Invalid value: "{text}": must be a version that this API gave, or 0, or left out'
        )
    return int(text)
