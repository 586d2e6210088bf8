"""Gets and lists, directly from the journal: no actor, no parsing, bytes as stored.

Every result comes from one consistent state: the current one, or exactly an older version. A list is read in turns
(`list_reader`), so that a long one does not block other requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from actors.clock import Clock
from actors.errors import BadRequest, Expired, VersionTooLarge
from actors.kinds.declaration.definition import Definition
from actors.quoting import quoted_start
from actors.selectors import FieldSelector, LabelSelector, matcher
from actors.selectors.matcher import Match
from actors.store.addressing import not_found
from actors.store.continue_token import CURRENT, Token, parse_token
from actors.store.feed import Feed
from actors.store.horizon import Horizon
from actors.store.list_reader import VERSION_TOO_OLD, Listing, ListReader, Start, VersionedState, state_at
from journal.log import Journal

# How long a read waits for a version that this server has not reached, before it raises VersionTooLarge.
VERSION_WAIT = 3.0

TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """As the client sent them; `actors.resource.options` has validated the combination."""

    resource_version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    at: int | None = None  # a version of the retained journal, however old; None: as resource_version says


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

    def get_at(self, definition: Definition, namespace: str, name: str, version: int) -> bytes:
        """An object as it was at a version of the retained journal."""
        with self._journal.read() as view:
            row = state_at(view, version).get(self._journal.type_id(definition.type_name), namespace, name)
        if row is None:
            raise not_found(definition, name)
        return row.body

    async def listing(self, definition: Definition, namespace: str | None, options: ListOptions) -> Listing:
        """A whole list, or as much as its limit allows."""
        found = await self.open(definition, namespace, options)
        return found if isinstance(found, Listing) else await found.read_all()

    async def open(
        self, definition: Definition, namespace: str | None, options: ListOptions
    ) -> ListReader | Listing:
        """Begin to read a list; one that needs no scan is complete at once."""
        match = matcher(options.labels, options.fields)
        if options.at is not None:
            return self._open_at(definition, namespace, options, match, options.at)
        if options.token:
            start = await self._continue(namespace, options, match)
            return self._reader(definition, namespace, options, match, start)
        exact = await self._starting_version(options)
        name = options.fields.exact("metadata.name") if options.fields else None
        if name is not None and (namespace is not None or not definition.namespaced):
            return self._single(definition, namespace or "", name, match, exact)
        start = Start(exact, None, None if match is None else -1)
        return self._reader(definition, namespace, options, match, start)

    def _open_at(
        self,
        definition: Definition,
        namespace: str | None,
        options: ListOptions,
        match: Match | None,
        version: int,
    ) -> ListReader | Listing:
        """A list at a version, which may be older than the watch history: only retention limits it."""
        if options.token:
            token = _token_in(namespace, options.token)
            if token.version != version:
                raise BadRequest(
                    f"continue key is not valid: it belongs to a list at another version than {version}"
                )
            start = Start(version, token, token.remaining if match is None else -1)
            return self._reader(definition, namespace, options, match, start)
        name = options.fields.exact("metadata.name") if options.fields else None
        if name is not None and (namespace is not None or not definition.namespaced):
            return self._single(definition, namespace or "", name, match, version)
        start = Start(version, None, None if match is None else -1)
        return self._reader(definition, namespace, options, match, start)

    def _reader(
        self,
        definition: Definition,
        namespace: str | None,
        options: ListOptions,
        match: Match | None,
        start: Start,
    ) -> ListReader:
        type_id = self._journal.type_id(definition.type_name)
        return ListReader(self._journal, self._clock, type_id, namespace, options.limit, match, start)

    def _single(
        self, definition: Definition, namespace: str, name: str, match: Match | None, version: int | None
    ) -> Listing:
        """A list with a field selector for one name, as clients that wait for one object send: no scan."""
        with self._journal.read() as view:
            state: VersionedState = view if version is None else state_at(view, version)
            row = state.get(self._journal.type_id(definition.type_name), namespace, name)
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

    async def _continue(self, namespace: str | None, options: ListOptions, match: Match | None) -> Start:
        token = _token_in(namespace, options.token)
        if token.version == CURRENT:
            return Start(None, token, None if match is None and options.limit > 0 else -1)
        await self._wait_for(token.version)
        expired = self._clock.now() - token.issued > self._horizon.window
        if expired or token.version < self._horizon.floor():
            raise Expired(TOKEN_TOO_OLD, fresh=str(_fresh(token)))
        return Start(token.version, token, token.remaining if match is None else -1)

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


def _token_in(namespace: str | None, text: str) -> Token:
    """The token of a list of this namespace, or of all. BadRequest."""
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
