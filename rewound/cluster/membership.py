"""Joins a server to a cluster whose journal is ordered by etcd (`--journal`, docs/decisions/0043-journal-on-etcd.md).

`join` prepares the journal of the data folder to follow etcd, before it is opened; `make_node` creates the services
that write and follow. `server.open_store` calls both.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import orjson
import trio

from rewound.actors.allocation.allocated import items_in
from rewound.actors.certificates.pki import write_atomically
from rewound.actors.certificates.trust import verifying
from rewound.actors.etcd.api import Etcd
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import NAMES, Names
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import new_uid
from rewound.actors.store.etcd.compaction import Compaction
from rewound.actors.store.etcd.copy import UnsyncedMarker, prepare
from rewound.actors.store.etcd.etcd_node import Membership, Node, Task
from rewound.actors.store.etcd.foreign import printable
from rewound.actors.store.etcd.migration import migrate_cluster
from rewound.actors.store.etcd.records import Keys, Quarantined
from rewound.actors.store.feed import Feed
from rewound.actors.versions.version import stored_version
from rewound.cluster.account_key import share_account_key
from rewound.gateway.settings.cluster import ClusterSettings
from rewound.gateway.settings.settings import Settings
from rewound.journal.files.private import private_folder
from rewound.journal.log import Journal

if TYPE_CHECKING:
    from rewound.cluster.etcd.client import EtcdClient

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Joined:
    member: Membership
    cluster_id: bytes
    unsynced: UnsyncedMarker
    kubernetes: str  # the version that all nodes are


@asynccontextmanager
async def join(
    settings: Settings, etcd: Etcd | None, prepare_certificates: Callable[[], object]
) -> AsyncIterator[Joined]:
    """Join the cluster.

    `etcd` is used in place of a client made from the flags. Raises CannotJoin, EtcdUnavailable or EtcdRefused.
    """
    if etcd is not None:
        yield await _joined(settings, etcd, prepare_certificates)
        return
    client = _client(settings.cluster)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        yield await _joined(settings, client, prepare_certificates)
        nursery.cancel_scope.cancel()


def _client(cluster: ClusterSettings) -> EtcdClient:
    # Imported here, because a server without etcd does not need it.
    from rewound.cluster.etcd.client import EtcdClient

    tls, scheme = None, "http"
    if cluster.etcd_cafile is not None:
        tls, scheme = verifying(cluster.etcd_cafile.read_bytes()), "https"
        if cluster.etcd_certfile is not None and cluster.etcd_keyfile is not None:
            tls.load_cert_chain(cluster.etcd_certfile, cluster.etcd_keyfile)
    user, password = cluster.credentials() or ("", "")
    endpoints = [f"{scheme}://{one}" for one in cluster.endpoints]
    return EtcdClient(endpoints, tls=tls, user=user, password=password)


async def _joined(settings: Settings, etcd: Etcd, prepare_certificates: Callable[[], object]) -> Joined:
    keys = Keys(settings.cluster.prefix)
    unsynced = UnsyncedMarker(settings.unsynced)
    record = settings.release.record
    prepared = await prepare(etcd, keys, settings.journal, settings.dialect, unsynced, record)
    keys = prepared.keys
    version = stored_version(prepared.kubernetes)
    settings = replace(settings, kubernetes_version=settings.kubernetes_version or version)
    catalog = built_in(NAMES[settings.dialect], settings.release, settings.enablement, settings.rules)
    await migrate_cluster(etcd, keys, prepared.kubernetes, settings.release, catalog, time_ns() // 1000)
    account_key = await share_account_key(settings, etcd, keys, prepared.cluster_id, prepare_certificates)
    member = Membership(etcd, keys, _node_id(settings), prepared.start, account_key, prepared.unreadable)
    return Joined(member, prepared.cluster_id, unsynced, settings.release.version)


def _node_id(settings: Settings) -> str:
    """The id of this node, kept in its data folder: it identifies proposals that an earlier process left pending."""
    path = settings.node_id
    if not path.exists():
        private_folder(path.parent)
        path.write_text(new_uid())
    return path.read_text().strip()


def make_node(
    settings: Settings,
    member: Membership,
    journal: Journal,
    feed: Feed,
    supervisor: Supervisor,
    names: Names,
    clock: Clock,
) -> Node:
    """The services of this node, for its open journal. Service addresses are unique in the cluster."""
    definitions = definition_type(names)
    with journal.read() as view:
        stored = [name for _, name, _ in view.rows(journal.type_id(definitions), "")]
    journal.register_types(stored)  # a kind has its id before it is published
    node = Node(
        member, journal, feed, supervisor.keep, {"services": items_in}, declared_by=definitions, now=clock.now
    )

    async def write(found: Mapping[bytes, Quarantined]) -> None:
        await trio.to_thread.run_sync(write_quarantine, settings.quarantine, member.keys, found)

    node.foreign.on_change = write
    return node


def write_quarantine(path: Path, keys: Keys, found: Mapping[bytes, Quarantined]) -> None:
    """Write a copy of etcd's quarantine to the data folder, for `rewound verify`, which has nothing else."""
    rows = [
        {"key": printable(key), "version": keys.version(one.revision), "why": one.why}
        for key, one in sorted(found.items())
    ]
    try:
        if rows:
            write_atomically(path, orjson.dumps(rows, option=orjson.OPT_INDENT_2), 0o600)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s, with what is in quarantine, cannot be written: %s", path, error.strerror)


def leading_tasks(settings: Settings, node: Node, journal: Journal, clock: Clock) -> list[Task]:
    """The tasks that the leader runs besides controllers."""
    window = round(settings.history_seconds * 1_000_000)
    member = node.member
    compaction = Compaction(member.etcd, member.keys, journal, clock, node.election, window)
    return [("compaction of etcd", compaction.run)]
