"""Gives all nodes of a cluster one key for service account tokens: the first node creates it, etcd stores it sealed.

A node reads it from etcd before it serves, and keeps it as its own (`pki/sa.key`). It is sealed with the key of the CA,
which all nodes must share (`actors.access.accounts.sealing`). A node that cannot open it, or has a different key, does
not join: it and the others would refuse each other's tokens. A new key is written to a file only after it is in etcd:
of nodes that start at the same time, all but one drop theirs. With --service-account-signing-key-file the operator
chooses the key, and none of this happens.
docs/decisions/0075-shared-account-key.md has the reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import trio

from rewound.actors.access.accounts.keys import KeyFiles, key_id, load_keys, new_key, write_own_key
from rewound.actors.access.accounts.sealing import CannotOpen, seal, unseal
from rewound.actors.etcd.api import Compare, Etcd, OutcomeUnknown, Put
from rewound.actors.store.etcd.copy import ATTEMPTS, PAUSE_SECONDS, CannotJoin
from rewound.actors.store.etcd.records import Keys, SealedKey, UnknownLayout, Unreadable
from rewound.gateway.settings.settings import Settings

logger = logging.getLogger(__name__)


async def share_account_key(
    settings: Settings, etcd: Etcd, keys: Keys, cluster_id: bytes, prepare_certificates: Callable[[], object]
) -> SealedKey | None:
    """Make the cluster's key that of this node; return None if flags choose the key.

    `prepare_certificates` creates the CA in the data folder if there is none. Raises CannotJoin, AccountKeyError,
    CertificateError, EtcdUnavailable or EtcdRefused.
    """
    if settings.service_accounts.service_account_signing_key_file is not None:
        return None
    own = settings.pki / "sa.key"
    waits = ATTEMPTS
    while True:
        found = (await etcd.range(keys.account_key)).kvs
        record = _decoded(keys, found[0].value) if found else None
        if record is not None:
            await trio.to_thread.run_sync(_take, record, own, settings.pki, cluster_id, keys)
            return record
        if waits and not own.exists() and (await etcd.range(keys.head, keys_only=True)).kvs:
            waits -= 1  # the cluster is not new: somebody may have changed the key, and a node that runs puts it again
            await trio.sleep(PAUSE_SECONDS)
            continue
        if found and not own.exists():
            raise CannotJoin(
                f"--journal: the key {keys.account_key.decode()} of etcd, which has the key of service account tokens, "
                "has a value that no node wrote: start a node first that has the file pki/sa.key in its data folder, "
                f"or copy that file to {own}"
            )
        new = await trio.to_thread.run_sync(_sealed_own, settings, own, cluster_id, prepare_certificates)
        compare = Compare(keys.account_key, "mod_revision", found[0].mod_revision if found else 0)
        try:
            await etcd.txn([compare], [Put(keys.account_key, new.encode())])
        except OutcomeUnknown:
            continue


def _decoded(keys: Keys, value: bytes) -> SealedKey | None:
    try:
        return SealedKey.decode(value)
    except Unreadable:
        return None
    except UnknownLayout as later:
        raise UnknownLayout(f"the key {keys.account_key.decode()}", later.layout) from None


def _sealed_own(
    settings: Settings, own: Path, cluster_id: bytes, prepare_certificates: Callable[[], object]
) -> SealedKey:
    """This node's own key, or a new one."""
    prepare_certificates()
    if own.exists():
        signer, pem = load_keys(KeyFiles(own)).signing.public.id, own.read_bytes()
    else:
        pem = new_key()
        signer = key_id(pem, own)
    return SealedKey(signer, seal(pem, settings.pki / "ca.key", cluster_id, signer))


def _take(record: SealedKey, own: Path, pki: Path, cluster_id: bytes, keys: Keys) -> None:
    """Check that this node has the key, or open and store it. Raises CannotJoin or AccountKeyError."""
    authority = pki / "ca.key"
    try:
        opened = unseal(record.sealed, authority, cluster_id, record.key_id) if authority.exists() else b""
    except CannotOpen:
        opened = b""
    if own.exists():
        if load_keys(KeyFiles(own)).signing.public.id != record.key_id:
            if not opened:
                raise CannotJoin(
                    f"--journal: the key {keys.account_key.decode()} of etcd, which has the key of service account "
                    f"tokens, is not that of {own}, and was not sealed with the CA in {pki}: give this node the folder "
                    "pki of a node that runs; if every node says so, somebody else wrote that key, and `etcdctl del "
                    f"{keys.account_key.decode()}` lets the next node that starts put its own"
                )
            raise CannotJoin(
                f"{own}: this node signs the tokens of service accounts with another key than the cluster, so that its "
                "tokens would be refused by the other nodes: move the file away, and this node takes the key of the "
                "cluster; give the file to all nodes with --service-account-key-file as long as its tokens are in use"
            )
        if not opened:
            logger.warning(
                "%s is not the key of the CA with which the cluster has sealed its key of service account tokens: "
                "certificates of one node may be refused by others; copy the files ca.* and proxy-ca.* of a node",
                authority,
            )
    elif opened:
        write_own_key(own, opened)
    else:
        raise CannotJoin(
            f"{pki}: this node does not have the CA of the cluster, with whose key that of service account tokens is "
            f"sealed in etcd: copy the folder pki of a node that runs to {pki}, then start this node again"
        )
