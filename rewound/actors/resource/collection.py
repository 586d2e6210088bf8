"""Deletes a collection: lists it with the given options, then deletes each object with a separate command.

It takes a limit, a continue token and a resourceVersion as a list does: a limit of ten deletes at most ten objects, and
the token of that page continues with the next DELETE. This API has no transaction over several objects: each object is
deleted separately, objects that were removed meanwhile are skipped, and after a timeout the rest stays. It reads the
list in parts and deletes the objects of each part before it reads the next, so that it holds little of a large
collection.

Deletions of collections leave room for the writes of others: a user has one batch of commands at a time, however many
collections it deletes, the batches of all users together are as large as one of a single user (or small), and who
prepares a batch waits for a turn on the event loop.

`Warned` collects the warnings of admission about all objects, each text once, even if a later object is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import orjson
import trio
from msgspec.structs import replace

from rewound.actors.admission.request import DELETE, AdmissionRequest
from rewound.actors.errors import NotFound, RequestError
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import COLLECTION, Delete, DeleteOptions, Outcome, WriteContext
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.store.reads import Listing, ListOptions, Reads

# Commands sent before waiting for their replies: as many as one commit should carry, far below a mailbox's capacity.
BATCH = 256
SMALLEST_BATCH = 16  # if many users delete collections at the same time
# Objects read before they are deleted.
LISTED_BYTES = 1 << 20
# Different warnings that are collected; a response has far fewer.
MAX_WARNINGS = 1000

Key = tuple[str, str]


class Warned:
    """The warnings of the deletions so far, each once, in the order in which they came."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}

    def add(self, outcome: Outcome) -> None:
        if outcome.warnings and len(self.texts) < MAX_WARNINGS:
            self.texts.update(dict.fromkeys(outcome.warnings))


class UserBatches:
    """The users that delete collections now. Requests of one user send their batches one after the other.

    The batch of a user may wait for a webhook or another writer; nobody else waits for it.
    """

    def __init__(self) -> None:
        self._locks: dict[str, trio.Lock] = {}
        self._requests: dict[str, int] = {}

    @property
    def size(self) -> int:
        """How many commands a batch has now."""
        return max(SMALLEST_BATCH, BATCH // max(1, len(self._locks)))

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(user, trio.Lock())
        self._requests[user] = self._requests.get(user, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._requests[user] -= 1
            if not self._requests[user]:
                del self._requests[user], self._locks[user]


_user_batches: Final[trio.lowlevel.RunVar[UserBatches]] = trio.lowlevel.RunVar("user_batches")


def user_batches() -> UserBatches:
    """Those of this event loop."""
    try:
        return _user_batches.get()
    except LookupError:
        batches = UserBatches()
        _user_batches.set(batches)
        return batches


async def delete_collection(
    reads: Reads,
    directory: Directory,
    definition: Definition,
    namespace: str | None,
    listed: ListOptions,
    options: DeleteOptions,
    context: WriteContext,
    warned: Warned,
) -> Listing:
    """Returns the metadata of the listed page, without its objects."""
    found = await reads.open(definition, namespace, listed)
    if isinstance(found, Listing):
        keys = await _keys(found.bodies)
        await _delete_all(directory, definition, keys, options, context, warned)
        return replace(found, bodies=[])
    while not found.complete:
        keys = await _keys(await found.read(LISTED_BYTES))
        await _delete_all(directory, definition, keys, options, context, warned)
    return found.listing([])


async def _keys(bodies: list[bytes]) -> list[Key]:
    """The keys of objects, which are parsed in turns."""
    keys: list[Key] = []
    await next_turn()
    turn = Turn()
    for body in bodies:
        keys.append(_key(body))
        if turn.over():
            await next_turn()
            turn = Turn()
    return keys


async def _delete_all(
    directory: Directory,
    definition: Definition,
    keys: list[Key],
    options: DeleteOptions,
    context: WriteContext,
    warned: Warned,
) -> None:
    batches, first = user_batches(), 0
    while first < len(keys):
        async with batches.turn(context.user):
            await next_turn()
            batch = keys[first : first + batches.size]
            await _delete_batch(directory, definition, batch, options, context, warned)
        first += len(batch)


def _key(body: bytes) -> Key:
    metadata = orjson.loads(body)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _delete_batch(
    directory: Directory,
    definition: Definition,
    keys: list[Key],
    options: DeleteOptions,
    context: WriteContext,
    warned: Warned,
) -> None:
    """Delete in the order of the list. Where webhooks may review it, one by one: the first refusal ends it."""
    commands = [Delete(definition.api_version, *key, context, options, verb=COLLECTION) for key in keys]
    if commands and _may_pause(directory, definition, commands[0]):
        for command in commands:
            with suppress(NotFound):
                warned.add(await directory.ask_served(definition, command))
        return
    await _delete_together(directory, definition, commands, warned)


def _may_pause(directory: Directory, definition: Definition, command: Delete) -> bool:
    context = command.context
    request = AdmissionRequest(
        DELETE, definition, command.namespace, "", "", None, None, context.user, command.dry_run, context
    )
    return directory.admission_chain(definition, DELETE, "").may_pause(request)


async def _delete_together(
    directory: Directory, definition: Definition, commands: list[Delete], warned: Warned
) -> None:
    """Send all commands before waiting for the first reply. Raises the first error, when all have a reply."""
    replies: deque[Coroutine[Any, Any, Outcome]] = deque()
    failure = _send(directory, definition, commands, replies)
    try:
        while replies:
            try:
                warned.add(await replies.popleft())
            except NotFound:
                continue
            except RequestError as error:
                failure = failure or error
    finally:
        await _abandon(replies)
    if failure is not None:
        raise failure


async def _abandon(replies: deque[Coroutine[Any, Any, Outcome]]) -> None:
    """Cancel the commands whose replies are no longer needed, and await each: it may hold reservations."""
    for reply in replies:
        with trio.CancelScope(shield=True) as scope, suppress(Exception):
            scope.cancel()
            await reply


def _send(
    directory: Directory,
    definition: Definition,
    commands: list[Delete],
    replies: deque[Coroutine[Any, Any, Outcome]],
) -> RequestError | None:
    """Add the reply of each command that the actor accepts; returns the error of the first that it refuses."""
    for command in commands:
        try:
            replies.append(directory.ask_served(definition, command))
        except RequestError as error:
            return error
    return None
