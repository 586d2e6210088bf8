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
from actors.admission.plugins.objects.always import AlwaysAdmit, AlwaysDeny
from actors.admission.plugins.objects.default_ingress_class import DefaultIngressClass
from actors.admission.plugins.objects.default_storage_class import DefaultStorageClass
from actors.admission.plugins.objects.deny_service_external_ips import DenyServiceExternalIPs
from actors.admission.plugins.objects.event_rate_limit import EventRateLimit, parse_limits
from actors.admission.plugins.objects.namespace_auto_provision import (
    CreateNamespace,
    NamespaceAutoProvision,
)
from actors.admission.plugins.objects.namespace_exists import NamespaceExists
from actors.admission.plugins.objects.owner_references_permission_enforcement import (
    FindKind,
    OwnerReferencesPermissionEnforcement,
)
from actors.admission.plugins.objects.persistent_volume_label import PersistentVolumeLabel, parse_location
from actors.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from actors.admission.plugins.pod_security.plugins import pod_security
from actors.admission.plugins.pod_security_policy.plugins import pod_security_policy
from actors.admission.plugins.pods.always_pull_images import AlwaysPullImages
from actors.admission.plugins.pods.extended_resource_toleration import ExtendedResourceToleration
from actors.admission.plugins.pods.image_policy_webhook import ImagePolicyWebhook, parse_image_policy
from actors.admission.plugins.pods.limit_pod_hard_anti_affinity_topology import (
    LimitPodHardAntiAffinityTopology,
)
from actors.admission.plugins.pods.pod_node_selector import PodNodeSelector, parse_selectors
from actors.admission.plugins.pods.pod_toleration_restriction import (
    PodTolerationRestriction,
    parse_tolerations,
)
from actors.admission.plugins.pods.runtime_class import RuntimeClass
from actors.admission.plugins.pods.security_context_deny import SecurityContextDeny
from actors.admission.plugins.priority import Priority, PriorityClasses
from actors.admission.plugins.quota.accounts import QuotaAccounts
from actors.admission.plugins.quota.limited import parse_limited
from actors.admission.plugins.quota.resource_quota import ResourceQuota
from actors.admission.plugins.service_account import ServiceAccount
from actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from actors.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from actors.admission.webhooks.plugins import webhook_plugins
from actors.allocation.allocated import AllocatedItems
from actors.allocation.ranges import DEFAULT_RANGES, ServiceRanges
from actors.kinds.features import RECOVER_EXPANSION
from actors.kinds.registry import Registry
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal


def _no_kind(api_version: str, kind: str) -> None:
    """For tools and tests without a registry of kinds."""


async def _create_no_namespace(name: str) -> None:
    """For tools and tests that create their namespaces."""


def plugins(
    names: Names,
    journal: Journal,
    feed: Feed,
    authorizer: Authorizer,
    rbac: Rbac,
    ranges: ServiceRanges = DEFAULT_RANGES,
    features: frozenset[str] = frozenset(),
    configuration: AdmissionConfiguration = NO_CONFIGURATION,
    *,
    find_kind: FindKind = _no_kind,
    create_namespace: CreateNamespace = _create_no_namespace,
    quotas: QuotaAccounts | None = None,
    registry: Registry | None = None,
) -> tuple[Plugin, ...]:
    of = configuration.of
    namespaces = Namespaces(journal, feed)
    selectors = parse_selectors(of("PodNodeSelector"))
    tolerations = parse_tolerations(names, of("PodTolerationRestriction"))
    return (
        AlwaysAdmit(),
        NamespaceAutoProvision(namespaces, create_namespace),
        NamespaceLifecycle(names, namespaces),
        NamespaceExists(namespaces),
        SecurityContextDeny(),
        LimitPodHardAntiAffinityTopology(names),
        LimitRanger(names, LimitRanges(names, journal, feed)),
        ServiceAccount(names, journal),
        NodeRestriction(names, journal, expansion_recovery=RECOVER_EXPANSION in features),
        TaintNodesByCondition(names),
        AlwaysPullImages(),
        ImagePolicyWebhook(names, parse_image_policy(of("ImagePolicyWebhook"))),
        *pod_security(names, journal, feed, configuration.of("PodSecurity")),
        *pod_security_policy(names, journal, feed, authorizer),
        PodNodeSelector(names, journal, feed, selectors),
        Priority(PriorityClasses(names, journal, feed)),
        DefaultTolerationSeconds(names),
        PodTolerationRestriction(names, journal, feed, tolerations),
        EventRateLimit(parse_limits(names, of("EventRateLimit"))),
        ExtendedResourceToleration(names),
        PersistentVolumeLabel(names, parse_location(of("PersistentVolumeLabel"))),
        DefaultStorageClass(names, journal, feed),
        StorageObjectInUseProtection(names),
        OwnerReferencesPermissionEnforcement(authorizer, find_kind),
        PersistentVolumeClaimResize(names, journal),
        RuntimeClass(names, journal, feed),
        CertificateApproval(names, authorizer),
        CertificateSigning(names, authorizer),
        CertificateSubjectRestriction(names),
        DefaultIngressClass(names, journal, feed),
        DenyServiceExternalIPs(),
        *webhook_plugins(names, journal, feed, configuration, registry),
        AlwaysDeny(),
        # Completions by the server itself; no flag disables these.
        ServiceAllocation(AllocatedItems(journal, feed), ranges),
        SigningRequests(names),
        RoleEscalation(names, rbac, authorizer),
        CertificateLibrary(names),
        # The last one that validates: it reserves what the write uses.
        ResourceQuota(
            quotas or QuotaAccounts(names, journal, feed, features), parse_limited(names, of("ResourceQuota"))
        ),
    )
