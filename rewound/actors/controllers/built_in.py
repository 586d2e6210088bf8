"""The controllers that a server runs, each in its loop. The supervisor runs the loops:

for loop in controllers(context):
    nursery.start_soon(supervisor.keep, loop.name, loop.run)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewound.actors.access.accounts.tokens import AccountTokens
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.controllers.api_services import (
    AvailabilityController,
    DescriptionController,
    RegistrationController,
    TrustPublisher,
)
from rewound.actors.controllers.bootstrap_tokens import BootstrapSigner, TokenCleaner
from rewound.actors.controllers.certificates import (
    CertificateApproving,
    CertificateCleaning,
    CertificateSigning,
    PodRequestCleaning,
)
from rewound.actors.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.custom_resources import CustomResourceController
from rewound.actors.controllers.endpoints import EndpointsCleanup
from rewound.actors.controllers.event_expiry import EventExpiry
from rewound.actors.controllers.flow_control import FlowControlController
from rewound.actors.controllers.garbage_collector import GarbageCollector
from rewound.actors.controllers.loop import Controller, Loop
from rewound.actors.controllers.namespaces import NamespaceController
from rewound.actors.controllers.orphaned_pods import PodGarbageCollector
from rewound.actors.controllers.policy_status import NAME as POLICY_STATUS
from rewound.actors.controllers.policy_status import PolicyStatusController, have_status
from rewound.actors.controllers.publication import Publication
from rewound.actors.controllers.quota import ResourceQuotaController
from rewound.actors.controllers.service_accounts import (
    LegacyTokenCleaner,
    LegacyTokenTracking,
    LegacyTokenUse,
    RootCertificatePublisher,
    ServiceAccountController,
    TokenSecretController,
)
from rewound.actors.controllers.service_addresses import (
    AddressRepair,
    DefaultServiceCidr,
    ServiceCidrController,
)
from rewound.actors.controllers.storage import (
    AttributesClassProtection,
    ClaimProtection,
    EphemeralVolumeController,
    PodGroupProtection,
    VolumeProtection,
)
from rewound.actors.controllers.storage_migration import NAME as STORAGE_MIGRATOR
from rewound.actors.controllers.storage_migration import StorageVersionMigrator, can_migrate
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.versions.features import (
    ATTRIBUTES_CLASSES,
    CLASSES_PROTECTED,
    GENERIC_WORKLOAD,
    LEGACY_TOKENS_CLEANED,
    LEGACY_TOKENS_TRACKED,
    POD_CERTIFICATES,
    POD_GROUPS,
    SERVICE_CIDRS,
)


def controllers(context: ControllerContext, publication: Publication | None = None) -> tuple[Loop[Any], ...]:
    """The controllers that --controllers selects, by their names in v1.25, and those that the server itself needs.

    Without a publication there are no custom kinds.
    """
    by_name: dict[str, Callable[[], Controller[Any]]] = {
        "bootstrapsigner": lambda: BootstrapSigner(context),
        "clusterrole-aggregation": lambda: ClusterRoleAggregationController(context),
        "csrapproving": lambda: CertificateApproving(context),
        "csrcleaner": lambda: CertificateCleaning(context),
        "csrsigning": lambda: CertificateSigning(context),
        "endpoint-cleanup": lambda: EndpointsCleanup(context),
        "ephemeral-volume": lambda: EphemeralVolumeController(context),
        "garbagecollector": lambda: GarbageCollector(context),
        "namespace": lambda: NamespaceController(context),
        "podgc": lambda: PodGarbageCollector(context),
        "pv-protection": lambda: VolumeProtection(context),
        "pvc-protection": lambda: ClaimProtection(context),
        "resourcequota": lambda: ResourceQuotaController(context, _quotas(context)),
        "serviceaccount": lambda: ServiceAccountController(context),
        "tokencleaner": lambda: TokenCleaner(context),
    }
    if ATTRIBUTES_CLASSES in context.features and CLASSES_PROTECTED in context.features:
        by_name["volumeattributesclass-protection-controller"] = lambda: AttributesClassProtection(context)
    if {GENERIC_WORKLOAD, POD_GROUPS} <= context.features:
        by_name["podgroup-protection-controller"] = lambda: PodGroupProtection(context)
    if (issuer := context.issuer) is not None:
        by_name["serviceaccount-token"] = lambda: TokenSecretController(context, issuer)
    if SERVICE_CIDRS in context.features:
        by_name["service-cidr-controller"] = lambda: ServiceCidrController(context)
    if POD_CERTIFICATES in context.features:
        by_name["podcertificaterequest-cleaner-controller"] = lambda: PodRequestCleaning(context)
    if LEGACY_TOKENS_CLEANED in context.features:
        by_name["legacy-serviceaccount-token-cleaner-controller"] = lambda: LegacyTokenCleaner(context)
    if have_status(context):
        by_name[POLICY_STATUS] = lambda: PolicyStatusController(context)
    if can_migrate(context):
        by_name[STORAGE_MIGRATOR] = lambda: StorageVersionMigrator(context)
    if context.publishes_certificate:
        by_name["root-ca-cert-publisher"] = lambda: RootCertificatePublisher(context)
    chosen = by_name.keys() if context.enabled is None else by_name.keys() & context.enabled
    own: list[Controller[Any]] = [FlowControlController(context), RegistrationController(context)]
    if SERVICE_CIDRS in context.features:
        own += [DefaultServiceCidr(context, context.networks), AddressRepair(context)]
    if LEGACY_TOKENS_TRACKED in context.features:
        own.append(LegacyTokenTracking(context))
    if context.aggregation is not None:
        own.append(AvailabilityController(context, context.aggregation))
        own.append(TrustPublisher(context, context.aggregation))
    if context.event_ttl:
        own.append(EventExpiry(context))
    loops = [Loop(one, context.feed) for one in (*own, *(by_name[name]() for name in sorted(chosen)))]
    if publication is not None:
        custom = CustomResourceController(context, publication)
        # One worker: the names that a definition gets depend on those of the others.
        loops.append(Loop(custom, context.feed, max_concurrent=1))
    return tuple(loops)


def description_controllers(context: ControllerContext) -> tuple[Loop[Any], ...]:
    """The controllers of every process that serves requests: they hold documents of other servers and write nothing."""
    if context.aggregation is None:
        return ()
    return (Loop(DescriptionController(context, context.aggregation), context.feed),)


def token_use(
    context: ControllerContext, write_contexts: WriteContexts, tokens: AccountTokens
) -> tuple[Loop[Any], ...]:
    """The controller of every process that authenticates requests and may write."""
    if LEGACY_TOKENS_TRACKED not in context.features:
        return ()
    return (Loop(LegacyTokenUse(context, write_contexts, tokens), context.feed),)


def _quotas(context: ControllerContext) -> QuotaAccounts:
    return context.quotas or QuotaAccounts(context.names, context.journal, context.feed)
