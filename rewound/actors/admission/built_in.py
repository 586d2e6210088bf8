"""The admission plugins of this server, in the order in which they run.

Larger plugins that are off by default are imported only if they are on or have a configuration (which is checked either
way), so that a start does not wait for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from rewound.actors.access.authorize import Authorizer
from rewound.actors.access.remote.calls import Calls
from rewound.actors.admission.caches import Namespaces
from rewound.actors.admission.completions import (
    CertificateLibrary,
    SchemaLibrary,
    ServiceAllocation,
    SigningRequests,
)
from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.plugins.always import AlwaysAdmit, AlwaysDeny
from rewound.actors.admission.plugins.always_pull_images import AlwaysPullImages
from rewound.actors.admission.plugins.certificate_signers import (
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
    PodCertificateSigning,
)
from rewound.actors.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from rewound.actors.admission.plugins.default_ingress_class import DefaultIngressClass
from rewound.actors.admission.plugins.default_storage_class import DefaultStorageClass
from rewound.actors.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from rewound.actors.admission.plugins.deny_service_external_ips import DenyServiceExternalIPs
from rewound.actors.admission.plugins.device_access import DeviceAccess
from rewound.actors.admission.plugins.extended_resource_toleration import ExtendedResourceToleration
from rewound.actors.admission.plugins.limit_pod_hard_anti_affinity_topology import (
    LimitPodHardAntiAffinityTopology,
)
from rewound.actors.admission.plugins.limit_ranger import LimitRanger, LimitRanges
from rewound.actors.admission.plugins.namespace_auto_provision import (
    NamespaceAutoProvision,
)
from rewound.actors.admission.plugins.namespace_exists import NamespaceExists
from rewound.actors.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from rewound.actors.admission.plugins.node_declared_features import NodeDeclaredFeatureValidator
from rewound.actors.admission.plugins.node_restriction import NodeCredentials, NodeRestriction
from rewound.actors.admission.plugins.owner_references_permission_enforcement import (
    OwnerReferencesPermissionEnforcement,
)
from rewound.actors.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from rewound.actors.admission.plugins.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from rewound.actors.admission.plugins.pod_resize_validator import PodResizeValidator
from rewound.actors.admission.plugins.pod_security.plugins import pod_security
from rewound.actors.admission.plugins.pod_topology_labels import PodTopologyLabels
from rewound.actors.admission.plugins.priority import Priority, PriorityClasses
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.admission.plugins.quota.resource_quota import ResourceQuota, parse_limited
from rewound.actors.admission.plugins.role_escalation import RoleEscalation
from rewound.actors.admission.plugins.runtime_class import RuntimeClass
from rewound.actors.admission.plugins.security_context_deny import SecurityContextDeny
from rewound.actors.admission.plugins.service_account import Accounts, ServiceAccount
from rewound.actors.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from rewound.actors.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from rewound.actors.admission.policies.plugins import policy_plugins
from rewound.actors.admission.policies.webhook_conditions import conditions_met
from rewound.actors.admission.webhooks.plugins import webhook_plugins
from rewound.actors.allocation.allocated import AllocatedItems, FixedRanges, PortPool, ServiceCidrs
from rewound.actors.allocation.services import ServicePools
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import SERVICE_CIDRS
from rewound.journal.log import Journal

_Configured = Callable[[str], PluginConfiguration | None]  # by the name of the plugin


def plugins(context: PluginContext) -> tuple[Plugin, ...]:
    """All plugins, except large ones that are off."""
    names, journal, feed, calls = context.names, context.journal, context.feed, context.calls
    authorizer, features = context.authorizer, context.features
    used, of = context.used, context.configuration.of
    namespaces = Namespaces(journal, feed)
    return (
        AlwaysAdmit(),
        NamespaceAutoProvision(namespaces, context.create_namespace),
        NamespaceLifecycle(names, namespaces),
        NamespaceExists(namespaces),
        SecurityContextDeny(),
        LimitPodHardAntiAffinityTopology(names),
        LimitRanger(names, LimitRanges(context.rules, journal, feed)),
        ServiceAccount(names, Accounts(journal, feed)),
        NodeRestriction(names, journal, features),
        NodeCredentials(names, journal, authorizer, features),
        TaintNodesByCondition(names),
        AlwaysPullImages(),
        *(_image_policy_webhook(names, of, calls) if used("ImagePolicyWebhook") else ()),
        *pod_security(names, journal, feed, of("PodSecurity"), features),
        *(_pod_security_policy(names, journal, feed, authorizer) if used("PodSecurityPolicy") else ()),
        *(_pod_node_selector(names, journal, feed, of) if used("PodNodeSelector") else ()),
        Priority(PriorityClasses(names, journal, feed)),
        DefaultTolerationSeconds(names),
        *(_pod_tolerations(names, journal, feed, of) if used("PodTolerationRestriction") else ()),
        *(_event_rate_limit(names, of) if used("EventRateLimit") else ()),
        ExtendedResourceToleration(names),
        *(_persistent_volume_label(names, of) if used("PersistentVolumeLabel") else ()),
        DefaultStorageClass(names, journal, feed, features),
        StorageObjectInUseProtection(names, features),
        PodGroupProtection(names, features),
        OwnerReferencesPermissionEnforcement(authorizer, context.find_kind),
        PersistentVolumeClaimResize(names, journal),
        RuntimeClass(names, journal, feed),
        CertificateApproval(names, authorizer, context.rules),
        CertificateSigning(names, authorizer),
        ClusterTrustBundleAttest(names, authorizer, features),
        CertificateSubjectRestriction(names),
        DefaultIngressClass(names, journal, feed),
        DenyServiceExternalIPs(),
        PodTopologyLabels(names, journal, feed, features),
        PodGroupWorkloadExists(names, journal, features),
        NodeDeclaredFeatureValidator(journal, feed, features),
        PodResizeValidator(names, journal, feed, features),
        *policy_plugins(context),
        *webhook_plugins(context, partial(conditions_met, context)),
        AlwaysDeny(),
        # Completions by the server itself; no flag disables these.
        _service_allocation(context),
        SigningRequests(names),
        RoleEscalation(names, context.rbac, authorizer, features),
        DeviceAccess(names, journal, authorizer, features),
        PodCertificateSigning(names, authorizer),
        CertificateLibrary(names),
        SchemaLibrary(names),
        # The last one that validates: it reserves what the write uses.
        ResourceQuota(
            context.quotas or QuotaAccounts(names, journal, feed, features),
            parse_limited(names, of("ResourceQuota")),
        ),
    )


def _service_allocation(context: PluginContext) -> ServiceAllocation:
    journal, feed, ranges = context.journal, context.feed, context.ranges
    group, ports = context.names.group("networking"), PortPool(*ranges.node_ports)
    if SERVICE_CIDRS not in context.features:
        pools = ServicePools(FixedRanges(ranges.networks), ports)
        return ServiceAllocation(AllocatedItems(journal, feed), pools, context.rules)
    pools = ServicePools(ServiceCidrs(ranges.networks, journal, feed, f"servicecidrs.{group}"), ports)
    return ServiceAllocation(AllocatedItems(journal, feed, f"ipaddresses.{group}"), pools, context.rules)


def _image_policy_webhook(names: Names, of: _Configured, calls: Calls) -> Iterable[Plugin]:
    from rewound.actors.admission.plugins.image_policy_webhook import ImagePolicyWebhook, parse_image_policy

    return (ImagePolicyWebhook(names, parse_image_policy(of("ImagePolicyWebhook")), calls),)


def _pod_security_policy(
    names: Names, journal: Journal, feed: Feed, authorizer: Authorizer
) -> Iterable[Plugin]:
    from rewound.actors.admission.plugins.pod_security_policy import pod_security_policy

    return pod_security_policy(names, journal, feed, authorizer)


def _pod_node_selector(names: Names, journal: Journal, feed: Feed, of: _Configured) -> Iterable[Plugin]:
    from rewound.actors.admission.plugins.pod_node_selector import PodNodeSelector, parse_selectors

    return (PodNodeSelector(names, journal, feed, parse_selectors(of("PodNodeSelector"))),)


def _pod_tolerations(names: Names, journal: Journal, feed: Feed, of: _Configured) -> Iterable[Plugin]:
    from rewound.actors.admission.plugins.pod_toleration_restriction import (
        PodTolerationRestriction,
        parse_tolerations,
    )

    tolerations = parse_tolerations(names, of("PodTolerationRestriction"))
    return (PodTolerationRestriction(names, journal, feed, tolerations),)


def _event_rate_limit(names: Names, of: _Configured) -> Iterable[Plugin]:
    from rewound.actors.admission.plugins.event_rate_limit import EventRateLimit, parse_limits

    return (EventRateLimit(parse_limits(names, of("EventRateLimit"))),)


def _persistent_volume_label(names: Names, of: _Configured) -> Iterable[Plugin]:
    from rewound.actors.admission.plugins.persistent_volume_label import PersistentVolumeLabel, parse_location

    return (PersistentVolumeLabel(names, parse_location(of("PersistentVolumeLabel"))),)
