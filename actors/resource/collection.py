"""Deleting a collection: the objects that match now, each by a command of its own.

There is no transaction over several objects in this API: every object is deleted (or marked) by itself, those
that went meanwhile are passed over, and a time limit leaves the rest alone.
"""

from __future__ import annotations

import trio

from actors.directory import Directory
from actors.errors import NotFound, RequestError
from actors.kinds.definition import Definition
from actors.messages import Delete, DeleteOptions, Stamp
from actors.resource.reads import Match
from journal.log import Journal

# Commands sent before waiting for their answers: one commit's worth, far below a mailbox's capacity.
TOGETHER = 256

Key = tuple[str, str]


async def delete_collection(
    journal: Journal,
    directory: Directory,
    definition: Definition,
    namespace: str | None,
    match: Match | None,
    options: DeleteOptions,
    stamp: Stamp,
) -> int:
    """How many objects were deleted or marked."""
    deleted = 0
    keys = _matching(journal, definition, namespace, match)
    for first in range(0, len(keys), TOGETHER):
        deleted += await _delete_some(directory, definition, keys[first : first + TOGETHER], options, stamp)
    return deleted


def _matching(
    journal: Journal, definition: Definition, namespace: str | None, match: Match | None
) -> list[Key]:
    with journal.read() as view:
        rows = view.rows(journal.type_id(definition.type_name), namespace)
        return [(at, name) for at, name, row in rows if match is None or match(row.facts)]


async def _delete_some(
    directory: Directory, definition: Definition, keys: list[Key], options: DeleteOptions, stamp: Stamp
) -> int:
    outcomes: list[bool] = []
    failures: list[RequestError] = []

    async def delete_one(namespace: str, name: str) -> None:
        command = Delete(definition.api_version, namespace, name, stamp, options, verb="deletecollection")
        try:
            await directory.ask(definition, command)
            outcomes.append(True)
        except NotFound:
            return
        except RequestError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for key in keys:
            nursery.start_soon(delete_one, *key)
    if failures:
        raise failures[0]
    return len(outcomes)
