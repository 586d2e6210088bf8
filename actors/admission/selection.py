"""Which admission plugins `--enable-admission-plugins` and `--disable-admission-plugins` select.

Every plugin that this server has is on by default, as in v1.25. The order in which plugins run is fixed (`built_in`);
the order of the flags does not matter. Only names here, so that reading the flags loads no plugin.
"""

from __future__ import annotations

from typing import Final

AVAILABLE: Final = (
    "DefaultTolerationSeconds",
    "NamespaceLifecycle",
    "PersistentVolumeClaimResize",
    "Priority",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
)
# Plugins of v1.25, and PodSecurityPolicy of v1.24.
UNAVAILABLE: Final = (
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeLabel",
    "PodNodeSelector",
    "PodSecurity",
    "PodSecurityPolicy",
    "PodTolerationRestriction",
    "ResourceQuota",
    "RuntimeClass",
    "SecurityContextDeny",
    "ValidatingAdmissionWebhook",
)


def parse_plugins(text: str) -> frozenset[str]:
    """The plugins in a comma-separated list; ValueError for a name that no plugin of v1.25 has."""
    named = frozenset(filter(None, (one.strip() for one in text.split(","))))
    unknown = sorted(named.difference(AVAILABLE, UNAVAILABLE))
    if unknown:
        raise ValueError(
            f"there is no plugin {', '.join(map(repr, unknown))}; there are {', '.join(AVAILABLE)}; "
            f"not available yet: {', '.join(UNAVAILABLE)}"
        )
    return named


def refuse_both(enabled: frozenset[str], disabled: frozenset[str]) -> None:
    """ValueError for plugins that are both enabled and disabled."""
    if both := sorted(enabled & disabled):
        raise ValueError(f"{', '.join(both)} is in --enable-admission-plugins too; leave one of them out")
