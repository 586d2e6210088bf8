"""The storage migration of a data folder: brings stored objects into the form of a newer version of Kubernetes.

    if needs_migration(journal, release):        before anything else reads or writes the journal
        await migrate(journal, release, catalog, now)

A journal records the version whose form its objects have. A server of a newer version decodes every stored object of a
built-in kind as Kubernetes decodes what it reads from etcd: defaults that the version has are filled in, fields that it
does not have any more are dropped (the history still has them). An object that differs then gets an event, with the
user of the API server's own writes; others stay as they are, with their resourceVersion.

The journal names the new version before the first object is written, and is complete when the last one is: a start
after a kill goes through all objects again, and those that have their new form do not change. Objects of custom kinds
have the form of their CustomResourceDefinition, which does not depend on the version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import trio

from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Object
from rewound.actors.store.document import decode, encode, facts_of
from rewound.actors.versions.features import Release
from rewound.actors.versions.version import minor, stored_version
from rewound.journal import failpoints
from rewound.journal.batching import in_batches, size_of_row
from rewound.journal.errors import NewerKubernetes
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

# Of one durable transaction: large enough that its fsync costs little, small enough for any memory.
BATCH = 500

_failpoint = failpoints.from_environment("migration")


def reason_for(release: Release) -> str:
    """The reason that events of a migration have."""
    return f"migrated to Kubernetes {release.version}"


def needs_migration(journal: Journal, release: Release) -> bool:
    """Whether objects may have the form of an earlier version. Raises NewerKubernetes if they have a later one."""
    stored = stored_version(journal.kubernetes)
    if minor(stored) > minor(release.version):
        raise NewerKubernetes(journal.path, stored, release.version)
    return stored != release.version or journal.is_migrating


async def migrate(journal: Journal, release: Release, catalog: Catalog, now: int) -> int:
    """Bring all objects into the form of the version; returns how many changed."""
    logger.info(
        "migrating the objects of Kubernetes %s to %s", stored_version(journal.kubernetes), release.version
    )
    journal.begin_migration(release.record)
    changed, reason = 0, reason_for(release)
    for type_name in catalog.stored_types():
        for events in _events_of_type(journal, catalog.storage(type_name), max(now, journal.time), reason):
            journal.append(events)
            changed += len(events)
            if events and _failpoint is not None:
                _failpoint("batch")
            await trio.lowlevel.checkpoint()
    journal.end_migration()
    logger.info("migrated to Kubernetes %s: %d objects have changed", release.version, changed)
    return changed


def _events_of_type(journal: Journal, storage: Definition, time: int, reason: str) -> Iterator[list[Event]]:
    """The events of the objects that change, in batches; each is read after the one before was written."""
    type_id = journal.type_id(storage.type_name)
    after: tuple[str, str] | None = None
    while True:
        events: list[Event] = []
        read = 0
        with journal.read() as view:
            rows = view.rows(type_id, None, after=after)
            for namespace, name, row in next(in_batches(rows, size_of_row, most=BATCH), ()):
                after, read = (namespace, name), read + 1
                new = in_new_form(storage, row.body, row.facts)
                if new is not None:
                    offset = journal.head + len(events) + 1
                    facts, body = facts_of(storage, new), encode(new, offset)
                    events.append(
                        Event(
                            *(offset, type_id, "update", namespace, name, row.offset, False, time),
                            *(SERVER_USER, "", facts, body, reason),
                        )
                    )
        if not read:
            return
        yield events


def in_new_form(storage: Definition, body: bytes, facts: bytes) -> Object | None:
    """The object as the version decodes it; None if it is the same, and so are the fields that select it."""
    try:
        new = storage.schema.decode_json(body).object
    except NotDecodable:
        return None  # no server wrote it: a recording of another one has it
    storage.schema.null_empty_lists(new)
    selected_alike = not storage.selection.fields or facts_of(storage, new) == facts
    return None if selected_alike and new == decode(body) else new
