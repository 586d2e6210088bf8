"""The admission plugins of this server, in the order in which they run."""

from __future__ import annotations

from actors.access.authorization.rbac.authorizer import Rbac
from actors.access.authorize import Authorizer
from actors.admission.completions.role_escalation import RoleEscalation
from actors.admission.completions.service_allocation import ServiceAllocation
from actors.admission.completions.signing_requests import CertificateLibrary, SigningRequests
from actors.admission.configuration import NO_CONFIGURATION, AdmissionConfiguration
from actors.admission.namespaces import Namespaces
from actors.admission.plugin import Plugin
from actors.admission.plugins.certificate_signers import CertificateApproval, CertificateSigning
from actors.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from actors.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from actors.admission.plugins.limit_ranger import LimitRanger, LimitRanges
from actors.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from actors.admission.plugins.node_restriction import NodeRestriction
from actors.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from actors.admission.plugins.pod_security.plugins import pod_security
from actors.admission.plugins.priority import Priority, PriorityClasses
from actors.admission.plugins.service_account import ServiceAccount
from actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from actors.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from actors.allocation.allocated import AllocatedItems
from actors.allocation.ranges import DEFAULT_RANGES, ServiceRanges
from actors.kinds.features import RECOVER_EXPANSION
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal


def plugins(
    names: Names,
    journal: Journal,
    feed: Feed,
    authorizer: Authorizer,
    rbac: Rbac,
    ranges: ServiceRanges = DEFAULT_RANGES,
    features: frozenset[str] = frozenset(),
    configuration: AdmissionConfiguration = NO_CONFIGURATION,
) -> tuple[Plugin, ...]:
    return (
        NamespaceLifecycle(names, Namespaces(journal, feed)),
        LimitRanger(names, LimitRanges(names, journal, feed)),
        ServiceAccount(names, journal),
        NodeRestriction(names, journal, expansion_recovery=RECOVER_EXPANSION in features),
        TaintNodesByCondition(names),
        *pod_security(names, journal, feed, configuration.of("PodSecurity")),
        Priority(PriorityClasses(names, journal, feed)),
        DefaultTolerationSeconds(names),
        StorageObjectInUseProtection(names),
        PersistentVolumeClaimResize(names, journal),
        CertificateApproval(names, authorizer),
        CertificateSigning(names, authorizer),
        CertificateSubjectRestriction(names),
        # Completions by the server itself; no flag disables these.
        ServiceAllocation(AllocatedItems(journal, feed), ranges),
        SigningRequests(names),
        RoleEscalation(names, rbac, authorizer),
        CertificateLibrary(names),
    )
