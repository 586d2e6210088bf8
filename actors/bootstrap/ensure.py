"""Stores what a cluster cannot be without, where it is missing; a server calls this once, before it is ready.

Everything goes to the actors like any other write, side by side, so that one commit carries a step. What is there
is left alone, but for the few paths that say where this server is. A refusal is told and no reason not to start:
whoever took an address away will want to look at the server that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from actors.bootstrap.objects import Seed
from actors.controllers.together import together
from actors.controllers.writer import Writer
from actors.errors import AlreadyExists
from actors.kinds.catalog import Catalog
from actors.messages import Object
from actors.resource.directory import Directory
from actors.stamps import SERVER_MANAGER, SERVER_USER, Stamps
from actors.store.document import decode
from journal.log import Journal

_log = logging.getLogger(__name__)


async def ensure(
    seeds: Iterable[Seed], catalog: Catalog, journal: Journal, directory: Directory, stamps: Stamps
) -> None:
    writer = Writer(directory, stamps, SERVER_USER, SERVER_MANAGER)

    async def write(change: tuple[Seed, Object, bool]) -> None:
        seed, new, exists = change
        definition = catalog.storage(seed.type_name)
        if exists:
            await writer.replace(definition, new)
            return
        try:
            await writer.create(definition, new["metadata"].get("namespace", ""), new)
        except AlreadyExists:
            return

    for refusal in await together(write, _missing(seeds, catalog, journal)):
        _log.warning("an object that every cluster has could not be stored: %s", refusal)


def _missing(seeds: Iterable[Seed], catalog: Catalog, journal: Journal) -> list[tuple[Seed, Object, bool]]:
    """What has to be written, and whether it is there in another form. A lookup each when nothing is."""
    changes = []
    with journal.read() as view:
        for seed in seeds:
            metadata = seed.document["metadata"]
            row = view.get(journal.type_id(seed.type_name), metadata.get("namespace", ""), metadata["name"])
            if row is None:
                changes.append(
                    (seed, catalog.storage(seed.type_name).schema.decode_object(seed.document).object, False)
                )
            elif seed.renewed and (new := _renewed(seed, catalog, decode(row.body))) is not None:
                changes.append((seed, new, True))
    return changes


def _wanted(seed: Seed, catalog: Catalog) -> Object:
    return catalog.storage(seed.type_name).schema.decode_object(seed.document).object


def _renewed(seed: Seed, catalog: Catalog, stored: Object) -> Object | None:
    """The stored object with what this server says of itself; None when it says so already."""
    wanted, changed = _wanted(seed, catalog), False
    for path in seed.renewed:
        *around, name = path.split(".")
        old, new = stored, wanted
        for part in around:
            old, new = old[part], new[part]
        if old.get(name) != new.get(name):
            old[name] = new[name]
            changed = True
    return stored if changed else None
