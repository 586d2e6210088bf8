"""Which admission plugins a server runs, in the order in which they see a write."""

from __future__ import annotations

from actors.admission.chain import Plugin
from actors.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from actors.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from actors.feed import Feed
from actors.names import Names
from actors.namespaces import Namespaces
from journal.log import Journal


def plugins(names: Names, journal: Journal, feed: Feed) -> tuple[Plugin, ...]:
    return (
        NamespaceLifecycle(names, Namespaces(journal, feed)),
        StorageObjectInUseProtection(names),
        PersistentVolumeClaimResize(names, journal),
    )
