"""Deleting a collection: what a list with the same options shows, each object by a command of its own.

Being a list first, it takes a limit, a token and a version as a list does: whoever asks to delete ten gets no
more than ten deleted, and the token of that page says where the next DELETE goes on. There is no transaction over
several objects in this API: every object is deleted (or marked) by itself, those that went meanwhile are passed
over, and a time limit leaves the rest alone.
"""

from __future__ import annotations

import orjson
import trio

from actors.errors import NotFound, RequestError
from actors.kinds.declaration.definition import Definition
from actors.messages import Delete, DeleteOptions, WriteContext
from actors.resource.directory import Directory
from actors.store.reads import Listing, ListOptions, Reads

# Commands sent before waiting for their replies: one commit's worth, far below a mailbox's capacity.
TOGETHER = 256

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
    """Returns the page of objects that were to be deleted, as it was listed before."""
    listing = await reads.listing(definition, namespace, listed)
    bodies = listing.bodies
    for first in range(0, len(bodies), TOGETHER):
        keys = [_key(body) for body in bodies[first : first + TOGETHER]]
        await _delete_some(directory, definition, keys, options, context)
    return listing


def _key(body: bytes) -> Key:
    metadata = orjson.loads(body)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _delete_some(
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
