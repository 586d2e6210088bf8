"""The storage migration of a cluster whose journal etcd orders: `actors.store.migration` with transactions of etcd.

The first node of a newer version migrates, while no other node serves: older ones would decide writes by their own
rules. The cluster names the new version first, and has the key `migrating` until every object has its form, so that
any node of the new version goes on after a kill. Each object is one transaction, which all nodes follow as usual.
"""

from __future__ import annotations

import logging
from os import urandom
from typing import Final

from rewound.actors.etcd.api import Compare, DeleteRange, Etcd, KeyValue, OutcomeUnknown, Put, prefix_end
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.store.document import at_version, encode_unversioned, facts_of
from rewound.actors.store.etcd.copy import CannotJoin
from rewound.actors.store.etcd.records import Change, Head, Keys, UnknownLayout, Unreadable, encode_heads
from rewound.actors.store.migration import in_new_form, reason_for
from rewound.actors.versions.features import Release
from rewound.actors.versions.version import minor, stored_version

logger = logging.getLogger(__name__)

PAGE: Final = 500  # objects per read


async def migrate_cluster(
    etcd: Etcd, keys: Keys, recorded: str, release: Release, catalog: Catalog, now: int
) -> None:
    """Bring the objects in etcd into the form of a version. `recorded` is the one that the cluster has.

    Raises CannotJoin if that is a later one, or if nodes of an earlier one are running.
    """
    stored = stored_version(recorded)
    if minor(stored) > minor(release.version):
        raise CannotJoin(
            f"--kubernetes-version: the cluster in etcd has objects of Kubernetes {stored}, which {release.version} "
            f"cannot read; give {stored} or later, or leave it out"
        )
    migrating = (await etcd.range(keys.migrating)).kvs
    if stored == release.version and not migrating:
        return
    if stored != release.version:
        if (await etcd.range(keys.serving, prefix_end(keys.serving), keys_only=True)).kvs:
            raise CannotJoin(
                f"--kubernetes-version: nodes of Kubernetes {stored} serve the cluster in etcd; stop all of them "
                f"before the first one starts with {release.version}, or leave it out"
            )
        await _put_version(etcd, keys, release.version)
    logger.info("migrating the objects in etcd to Kubernetes %s", release.version)
    start, end = keys.objects, prefix_end(keys.objects)
    while True:
        page = await etcd.range(start, end, limit=PAGE)
        for one in page.kvs:
            await _migrate_object(etcd, keys, one, release, catalog, now)
        if not page.more:
            break
        start = page.kvs[-1].key + b"\0"
    await _repeat(etcd, [], [DeleteRange(keys.migrating)])


async def _put_version(etcd: Etcd, keys: Keys, version: str) -> None:
    await _repeat(etcd, [], [Put(keys.migrating, b"1"), Put(keys.kubernetes, version.encode())])


async def _migrate_object(
    etcd: Etcd, keys: Keys, one: KeyValue, release: Release, catalog: Catalog, now: int
) -> None:
    """Write an object again if it has another form in the version; others, and those of custom kinds, stay."""
    try:
        type_name, namespace, name = keys.parse_object(one.key)
        before = Change.decode(one.value)
        previous = keys.version(one.mod_revision, before.place)
        body = at_version(before.body, previous)
    except (Unreadable, UnknownLayout, ValueError):
        return  # this server did not write it
    known = catalog.stored_type(type_name)
    new = None if known is None else in_new_form(known.storage, body, before.facts)
    if known is None or new is None:
        return
    after = Change(
        *("update", previous, max(now, before.time), SERVER_USER, "", reason_for(release)),
        *(urandom(16), facts_of(known.storage, new), encode_unversioned(new)),
    )
    newest = Head(type_name, namespace, name, after.write_id)
    # If another node is first, the object has its new form already.
    await _repeat(
        etcd,
        [Compare(one.key, "mod_revision", one.mod_revision)],
        [Put(one.key, after.encode(keys.layout)), Put(keys.head, encode_heads((newest,), keys.layout))],
    )


async def _repeat(etcd: Etcd, compares: list[Compare], operations: list[Put | DeleteRange]) -> None:
    """Run a transaction that may run twice, until its outcome is known."""
    while True:
        try:
            await etcd.txn(compares, operations)
            return
        except OutcomeUnknown:
            continue
