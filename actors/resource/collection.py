"""Deletes a collection: lists it with the given options, then deletes each object with a separate command.

It takes a limit, a continue token and a resourceVersion as a list does: a limit of ten deletes at most ten objects, and
the token of that page continues with the next DELETE. This API has no transaction over several objects: each object is
deleted separately, objects that were removed meanwhile are skipped, and after a timeout the rest stays.
"""

from __future__ import annotations

import orjson
import trio

from actors.errors import NotFound, RequestError
from actors.kinds.declaration.definition import Definition
from actors.messages import Delete, DeleteOptions, WriteContext
from actors.resource.directory import Directory
from actors.store.reads import Listing, ListOptions, Reads

# Commands sent before waiting for their replies: as many as one commit should carry, far below a mailbox's capacity.
BATCH = 256

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
    """Returns the page of objects as listed before they were deleted."""
    listing = await reads.listing(definition, namespace, listed)
    bodies = listing.bodies
    for first in range(0, len(bodies), BATCH):
        keys = [_key(body) for body in bodies[first : first + BATCH]]
        await _delete_batch(directory, definition, keys, options, context)
    return listing


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
