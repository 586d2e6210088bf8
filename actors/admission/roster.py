"""Which admission plugins a server runs, in the order in which they see a write."""

from __future__ import annotations

from actors.admission.chain import Completion, Plugin
from actors.admission.namespaces import Namespaces
from actors.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from actors.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from actors.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from actors.admission.plugins.priority import Priority, PriorityClasses
from actors.admission.plugins.service_account import ServiceAccount
from actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from actors.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from actors.admission.signing_requests import SigningRequests
from actors.allocation.holdings import Holdings
from actors.allocation.ranges import USUAL, ServiceRanges
from actors.allocation.services import ServiceAllocation
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal


def plugins(names: Names, journal: Journal, feed: Feed) -> tuple[Plugin, ...]:
    return (
        NamespaceLifecycle(names, Namespaces(journal, feed)),
        ServiceAccount(names, journal),
        TaintNodesByCondition(names),
        Priority(PriorityClasses(names, journal, feed)),
        DefaultTolerationSeconds(names),
        StorageObjectInUseProtection(names),
        PersistentVolumeClaimResize(names, journal),
    )


def completions(
    names: Names, journal: Journal, feed: Feed, ranges: ServiceRanges = USUAL
) -> tuple[Completion, ...]:
    """What the server gives objects of its own, after the plugins."""
    return (ServiceAllocation(Holdings(journal, feed), ranges), SigningRequests(names))
