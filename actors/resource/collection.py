"""Deletes a collection: lists it with the given options, then deletes each object with a separate command.

It takes a limit, a continue token and a resourceVersion as a list does: a limit of ten deletes at most ten objects, and
the token of that page continues with the next DELETE. This API has no transaction over several objects: each object is
deleted separately, objects that were removed meanwhile are skipped, and after a timeout the rest stays. It lists in
turns and deletes what each of them read, so that it holds little of a large collection.
"""

from __future__ import annotations

from dataclasses import replace

import orjson
import trio

from actors.errors import NotFound, RequestError
from actors.kinds.declaration.definition import Definition
from actors.messages import Delete, DeleteOptions, WriteContext
from actors.resource.directory import Directory
from actors.store.list_reader import Listing
from actors.store.reads import ListOptions, Reads
from actors.turns import Turn

# Commands sent before waiting for their replies: as many as one commit should carry, far below a mailbox's capacity.
BATCH = 256
# Objects read before they are deleted.
LISTED_BYTES = 1 << 20

Key = tuple[str, str]


async def delete_collection(
    reads: Reads,
    directory: Directory,
    definition: Definition,
    namespace: str | None,
    listed: ListOptions,
    options: DeleteOptions,
    context: WriteContext,
) -> Listing:
    """Returns the metadata of the page that was listed, and none of its objects."""
    found = await reads.open(definition, namespace, listed)
    if isinstance(found, Listing):
        await _delete_batch(directory, definition, [_key(body) for body in found.bodies], options, context)
        return replace(found, bodies=[])
    while not found.complete:
        for keys in await _keys(await found.read(LISTED_BYTES)):
            await _delete_batch(directory, definition, keys, options, context)
    return found.listing([])


async def _keys(bodies: list[bytes]) -> list[list[Key]]:
    """The keys of objects in batches; parses large objects in turns."""
    keys: list[Key] = []
    turn = Turn()
    for body in bodies:
        keys.append(_key(body))
        if turn.over():
            await trio.lowlevel.checkpoint()
            turn = Turn()
    return [keys[first : first + BATCH] for first in range(0, len(keys), BATCH)]


def _key(body: bytes) -> Key:
    metadata = orjson.loads(body)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _delete_batch(
    directory: Directory,
    definition: Definition,
    keys: list[Key],
    options: DeleteOptions,
    context: WriteContext,
) -> None:
    failures: list[RequestError] = []

    async def delete_one(namespace: str, name: str) -> None:
        command = Delete(definition.api_version, namespace, name, context, options, verb="deletecollection")
        try:
            await directory.ask_served(definition, command)
        except NotFound:
            return
        except RequestError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for key in keys:
            nursery.start_soon(delete_one, *key)
    if failures:
        raise failures[0]
