"""Prepares the journal of a node before it follows etcd: the identity of the cluster, and the state to start from.

    found = await prepare(etcd, keys, folder, dialect)     then open the journal in the folder, and follow

A node that has a journal continues after its newest version, if etcd still has all later changes. One without a
journal, or one that was away for too long, starts from the state at the `floor` of the cluster: the version up to which
etcd is compacted, with the time of its event. Every node starts there, so that all have the same events with the same
times, and as much history as etcd has. In a young cluster nothing is compacted yet: a node follows from the first
revision.

If another program compacted etcd beyond the floor (`--auto-compaction-retention`), a node without a journal raises the
floor; also if the key `floor` or `cluster` was deleted or overwritten. Unreadable objects are left out of the journal,
and reported to the node (`foreign`).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from os import urandom
from pathlib import Path
from typing import BinaryIO, Final

import orjson
import trio

from rewound.actors.etcd.api import (
    Compacted,
    Compare,
    Etcd,
    Get,
    KeyValue,
    OutcomeUnknown,
    Put,
    RangeResult,
    prefix_end,
)
from rewound.actors.store.document import at_version
from rewound.actors.store.etcd.records import (
    Change,
    Cluster,
    Floor,
    Head,
    Keys,
    UnknownLayout,
    Unreadable,
    encode_heads,
    new_cluster_id,
)
from rewound.actors.versions.version import parse_version, record_of, stored_version
from rewound.journal.errors import JournalError
from rewound.journal.files.identity import new_cluster_id as new_identity
from rewound.journal.files.identity import read as read_identity
from rewound.journal.files.private import private_folder
from rewound.journal.log import Journal
from rewound.journal.records import MAX_TIME, Event
from rewound.journal.transfer import restore_state

logger = logging.getLogger(__name__)

PAGE: Final = 500  # objects per read of the state
ATTEMPTS: Final = 5  # to read a state that is compacted meanwhile
PAUSE_SECONDS: Final = 1.0  # before checking again for a key that another program deleted


class CannotJoin(JournalError):
    """The data folder or the flags belong to another cluster than the one in etcd."""


class NoFloor(Exception):
    """No object has the version of the floor: another program wrote the floor, or changed that object."""


BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class UnsyncedMarker:
    """A file that records during which boot of the machine a non-durable journal was opened.

    What etcd has need not be made durable again, which shortens commits. Written data is in the kernel's page cache, so
    it survives the end of the process. After a reboot the copy may be damaged and is not used again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""

    @property
    def is_possible(self) -> bool:
        """Whether this machine identifies its boots."""
        return bool(self._boot)

    def is_of_earlier_boot(self) -> bool:
        return self._path.exists() and self._path.read_text() != self._boot

    def begin(self) -> None:
        """Call before the journal is opened."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, self._boot.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        parent = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def end(self) -> None:
        """Call when the journal is closed and durable."""
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Prepared:
    cluster_id: bytes
    keys: Keys  # which know how the versions of this cluster follow from revisions
    start: int  # the revision after which an empty journal follows
    unreadable: tuple[bytes, ...] = ()  # keys of objects that were left out
    kubernetes: str = ""  # the version that the cluster records


async def prepare(
    etcd: Etcd,
    keys: Keys,
    folder: Path,
    dialect: str,
    unsynced: UnsyncedMarker | None = None,
    kubernetes: str = "",
) -> Prepared:
    """Make the journal in the folder ready to follow. Raises CannotJoin, EtcdUnavailable or EtcdRefused.

    `unsynced`: records whether the machine was rebooted while the journal was open. `kubernetes` is the version of a
    new cluster; empty: 1.25.
    """
    cluster, created = await _find_cluster(etcd, keys, folder, dialect)
    if cluster.dialect != dialect:
        raise CannotJoin(
            f"--dialect: the cluster in etcd has the dialect {cluster.dialect}, not {dialect}; "
            f"give --dialect {cluster.dialect}, or another prefix in --journal"
        )
    keys = keys.of_cluster(cluster.cluster_id)
    recorded = await _find_kubernetes(etcd, keys, kubernetes)
    if unsynced is not None and unsynced.is_of_earlier_boot():
        logger.warning("the machine stopped while this node ran: rebuilding its copy from the state in etcd")
        _remove(folder)
    head = _head_in(folder, cluster)
    unreadable: list[bytes] = []
    for _ in range(ATTEMPTS):
        floor = await _find_floor(etcd, keys) or Floor(keys.version(created), 0)
        state = keys.revision(floor.version)
        if head and head >= floor.version and await _is_readable(etcd, keys, keys.revision(head)):
            break
        if not await _is_readable(etcd, keys, state) or (
            state <= created and await _is_older(etcd, keys, created)
        ):
            await _raise_floor(etcd, keys)
            continue
        _remove(folder)
        if state > created:
            try:
                unreadable = await _restore(etcd, keys, folder, cluster, floor, recorded)
            except Compacted:
                continue
            except NoFloor:
                await _raise_floor(etcd, keys)
                continue
        break
    else:
        raise CannotJoin(
            "etcd is compacted faster than its state can be read; see its flag --auto-compaction-retention"
        )
    return Prepared(cluster.cluster_id, keys, created, tuple(unreadable), recorded)


async def _find_kubernetes(etcd: Etcd, keys: Keys, kubernetes: str) -> str:
    """Read the version that the cluster records; a cluster without objects gets `kubernetes`."""
    while True:
        # Reads first: if etcd is full, it refuses a transaction with a put even if its comparison would fail.
        has_objects = (await etcd.range(keys.head, keys_only=True)).kvs
        recorded = (await etcd.range(keys.kubernetes)).kvs
        if has_objects or recorded:
            break
        empty = [Compare(key, "create_revision", 0) for key in (keys.head, keys.kubernetes)]
        try:
            result = await etcd.txn(empty, [Put(keys.kubernetes, stored_version(kubernetes).encode())])
        except OutcomeUnknown:
            continue
        if result.succeeded:
            return kubernetes
    try:
        version = parse_version(recorded[0].value.decode()) if recorded else stored_version("")
    except ValueError as wrong:
        raise CannotJoin(f"--journal: the key {keys.kubernetes.decode()} of etcd: {wrong}") from None
    return record_of(version)


async def _find_cluster(etcd: Etcd, keys: Keys, folder: Path, dialect: str) -> tuple[Cluster, int]:
    """Read the cluster's identity and the revision in which it was created, or create it.

    Raises CannotJoin, EtcdUnavailable or EtcdRefused.
    """
    known = _cluster_in(folder)
    for _ in range(ATTEMPTS):
        # A transaction whose outcome is unknown is repeated forever; a read raises if etcd cannot be used at all.
        found = (await etcd.range(keys.cluster)).kvs
        cluster = _decoded(keys, found[0].value) if found else None
        if found and cluster is not None:
            return cluster, found[0].create_revision
        if not found and not (await etcd.range(keys.head, keys_only=True)).kvs:
            return await _put_cluster(etcd, keys, Cluster(new_cluster_id(), dialect), 0)
        if known is not None:
            logger.warning(
                "another program has changed the key %s of etcd; restoring it", keys.cluster.decode()
            )
            return await _put_cluster(etcd, keys, known, found[0].mod_revision if found else 0)
        await trio.sleep(PAUSE_SECONDS)  # a running node restores it
    if not found:
        logger.warning("the key %s of etcd is gone; giving the cluster a new identity", keys.cluster.decode())
        return await _put_cluster(etcd, keys, Cluster(await _new_id_for_objects(etcd, keys), dialect), 0)
    raise CannotJoin(
        f"--journal: the key {keys.cluster.decode()} of etcd, which says which cluster this is, has a value that no "
        "node wrote: start a node that still has its data folder first, which restores the key; if there is none, "
        f"delete the key (etcdctl del {keys.cluster.decode()})"
    )


async def _new_id_for_objects(etcd: Etcd, keys: Keys) -> bytes:
    """An id that keeps the versions of existing objects: their records have the layout of their cluster."""
    start, end = keys.objects, prefix_end(keys.objects)
    while True:
        page = await etcd.range(start, end, limit=PAGE)
        for one in page.kvs:
            if _read_object(keys, one) is not None:
                batched = one.value[1] == keys.layout  # the first field of the array
                return new_cluster_id() if batched else new_identity()
        if not page.more:
            return new_cluster_id()
        start = page.kvs[-1].key + b"\0"


def _decoded(keys: Keys, value: bytes) -> Cluster | None:
    """Decode the cluster's identity; None if it is no such record. Raises UnknownLayout if a later release wrote it."""
    try:
        return Cluster.decode(value)
    except Unreadable:
        return None
    except UnknownLayout as later:
        raise UnknownLayout(f"the key {keys.cluster.decode()}", later.layout) from None


async def _put_cluster(etcd: Etcd, keys: Keys, new: Cluster, version: int) -> tuple[Cluster, int]:
    """Put the cluster's identity, unless another node was first. Raises EtcdUnavailable, EtcdRefused or CannotJoin."""
    while True:
        try:
            result = await etcd.txn(
                [Compare(keys.cluster, "mod_revision", version)],
                [Put(keys.cluster, new.encode()), Get(keys.cluster)],
                [Get(keys.cluster)],
            )
        except OutcomeUnknown:
            continue  # then one of the two has been put
        stored = result.responses[-1]
        assert isinstance(stored, RangeResult)
        found = _decoded(keys, stored.kvs[0].value) if stored.kvs else None
        if found is None:
            raise CannotJoin(
                f"--journal: another program keeps changing the key {keys.cluster.decode()} of etcd; stop it"
            )
        return found, stored.kvs[0].create_revision


def _cluster_in(folder: Path) -> Cluster | None:
    """The cluster whose journal is in the folder."""
    if not folder.exists() or not any(folder.iterdir()):
        return None
    try:
        who = read_identity(folder)
    except ValueError:
        return None  # opening the journal reports the reason
    return None if who is None else Cluster(who.cluster_id, who.dialect)


async def _find_floor(etcd: Etcd, keys: Keys) -> Floor | None:
    """The floor; None if there is none, or another program overwrote it."""
    found = await etcd.range(keys.floor)
    try:
        floor = Floor.decode(found.kvs[0].value) if found.kvs else None
    except Unreadable as why:
        logger.warning("the key %s of etcd is not used: %s", keys.floor.decode(), why)
        return None
    except UnknownLayout as later:
        raise UnknownLayout(f"the key {keys.floor.decode()}", later.layout) from None
    if floor is None or not (
        0 < keys.revision(floor.version) <= found.revision and 0 <= floor.time <= MAX_TIME
    ):
        return None
    return floor


async def _is_older(etcd: Etcd, keys: Keys, created: int) -> bool:
    """Whether the cluster had objects before its key `cluster` was created: the key was deleted and put again."""
    head = (await etcd.range(keys.head, keys_only=True)).kvs
    page = await etcd.range(keys.objects, prefix_end(keys.objects), limit=PAGE, keys_only=True)
    return any(one.create_revision < created for one in (*head, *page.kvs))


def _head_in(folder: Path, cluster: Cluster) -> int:
    """The newest version in the journal of the folder; 0 if it has none. Raises AlreadyOpen if a server has it open."""
    if not folder.exists() or not any(folder.iterdir()):
        return 0
    journal = Journal.open(folder, dialect=cluster.dialect)
    try:
        who = journal.environment.identity
        if who is None or who.cluster_id != cluster.cluster_id:
            raise CannotJoin(
                f"--data-dir: the journal in {folder} is that of another cluster than the one in etcd; "
                "give another folder, or another prefix in --journal"
            )
        return journal.head
    finally:
        journal.close()


async def _is_readable(etcd: Etcd, keys: Keys, revision: int) -> bool:
    """Whether etcd still has all changes after a revision."""
    try:
        await etcd.range(keys.cluster, revision=revision, keys_only=True)
    except Compacted:
        return False
    return True


async def _raise_floor(etcd: Etcd, keys: Keys) -> None:
    """Write an object again unchanged, so that there is an event at which all nodes can start."""
    one, before = await _find_object(etcd, keys)
    type_name, namespace, name = keys.parse_object(one.key)
    previous = keys.version(one.mod_revision, before.place)
    again = before._replace(verb="update", previous=previous, write_id=urandom(16), place=0)
    newest = Head(type_name, namespace, name, again.write_id)
    try:
        result = await etcd.txn(
            [Compare(one.key, "mod_revision", one.mod_revision)],
            [Put(one.key, again.encode(keys.layout)), Put(keys.head, encode_heads((newest,), keys.layout))],
        )
        if result.succeeded:
            floor = Floor(keys.version(result.revision), before.time)
            await etcd.txn((), [Put(keys.floor, floor.encode())])
    except OutcomeUnknown:
        return  # the caller checks again


async def _find_object(etcd: Etcd, keys: Keys) -> tuple[KeyValue, Change]:
    """A readable object. Raises CannotJoin if there is none."""
    start, end = keys.objects, prefix_end(keys.objects)
    while True:
        page = await etcd.range(start, end, limit=PAGE)
        for one in page.kvs:
            if (change := _read_object(keys, one)) is not None:
                return one, change
        if not page.more:
            raise CannotJoin(
                "etcd was compacted before the cluster had its first object; give another prefix in --journal"
            )
        start = page.kvs[-1].key + b"\0"


def _read_object(keys: Keys, stored: KeyValue) -> Change | None:
    """Decode an object; None if no node can have written it. Raises UnknownLayout if a later release did."""
    try:
        keys.parse_object(stored.key)
        change = Change.decode(stored.value)
        document = orjson.loads(change.body)
    except (Unreadable, ValueError):
        return None
    return change if isinstance(document, dict) and change.can_be_stored(stored.mod_revision, keys) else None


async def _restore(
    etcd: Etcd, keys: Keys, folder: Path, cluster: Cluster, floor: Floor, kubernetes: str
) -> list[bytes]:
    """Build the journal from the state at the floor; returns the unreadable keys. Raises Compacted or NoFloor."""
    private_folder(folder.parent)
    with tempfile.TemporaryFile(dir=folder.parent) as stream:
        places, unreadable = await _read_state(etcd, keys, keys.revision(floor.version), stream)
        if not places or places[-1][0] != floor.version:
            raise NoFloor
        await trio.to_thread.run_sync(
            lambda: restore_state(
                folder,
                _events(keys, places, stream, floor),
                dialect=cluster.dialect,
                kubernetes=kubernetes,
                cluster_id=cluster.cluster_id,
                floor=floor.version,
            )
        )
    return unreadable


_Place = tuple[int, bytes, int, int]  # version, key, offset of its value, and length


async def _read_state(
    etcd: Etcd, keys: Keys, revision: int, stream: BinaryIO
) -> tuple[list[_Place], list[bytes]]:
    """Read all objects at a revision in pages, into a file, because they are needed in the order of their versions.

    Also returns the unreadable keys.
    """
    places: list[_Place] = []
    unreadable: list[bytes] = []
    start, end, position = keys.objects, prefix_end(keys.objects), 0
    while True:
        page = await etcd.range(start, end, revision=revision, limit=PAGE)
        for one in page.kvs:
            change = _read_object(keys, one)
            if change is None:
                unreadable.append(one.key)
                continue
            stream.write(one.value)
            version = keys.version(one.mod_revision, change.place)
            places.append((version, one.key, position, len(one.value)))
            position += len(one.value)
        if not page.more:
            return sorted(places), unreadable
        start = page.kvs[-1].key + b"\0"


def _events(keys: Keys, places: list[_Place], stream: BinaryIO, floor: Floor) -> Iterator[tuple[str, Event]]:
    """The event that wrote each object, with the name of its type. No time is after that of the floor."""
    time = 0
    for version, key, position, length in places:
        stream.seek(position)
        change = Change.decode(stream.read(length))
        time = max(time, change.time)
        time = floor.time if version == floor.version else min(time, floor.time)
        type_name, namespace, name = keys.parse_object(key)
        yield (
            type_name,
            Event(
                version,
                0,
                change.verb,
                namespace,
                name,
                change.previous,
                False,
                time,
                change.user,
                change.manager,
                change.facts,
                at_version(change.body, version),
                change.reason,
            ),
        )


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
