"""Which admission plugins `--enable-admission-plugins` and `--disable-admission-plugins` select.

The same plugins are on by default as in Kubernetes, except CertificateSubjectRestriction, for which the rule
`certificate-subjects` (`actors.profile`) decides; with simulated nodes NodeRestriction is on, too (`gateway.settings`).
The order in which plugins run is fixed (`built_in`); the order of the flags does not matter. Only names here,
so that reading the flags loads no plugin.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.profile import Rules

NODE_RESTRICTION: Final = "NodeRestriction"
ON_BY_DEFAULT: Final = (
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "PersistentVolumeClaimResize",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodResizeValidator",
    "PodSecurity",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
)
OFF_BY_DEFAULT: Final = (
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    NODE_RESTRICTION,
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeLabel",
    "PodNodeSelector",
    "PodSecurityPolicy",
    "PodTolerationRestriction",
    "SecurityContextDeny",
)
SUBJECT_RESTRICTION: Final = "CertificateSubjectRestriction"
AVAILABLE: Final = tuple(sorted((*ON_BY_DEFAULT, *OFF_BY_DEFAULT, SUBJECT_RESTRICTION)))


def parse_plugins(text: str) -> frozenset[str]:
    """Parse a comma-separated list of plugins. Raises ValueError for an unknown name."""
    named = frozenset(filter(None, (one.strip() for one in text.split(","))))
    if unknown := sorted(named.difference(AVAILABLE)):
        raise ValueError(
            f"there is no plugin {', '.join(map(repr, unknown))}; there are {', '.join(AVAILABLE)}"
        )
    return named


def plugins_off(rules: Rules, enabled: frozenset[str], disabled: frozenset[str]) -> frozenset[str]:
    """The plugins that do not run: those that are disabled, and those off by default that are not enabled."""
    off = frozenset(OFF_BY_DEFAULT)
    if rules.certificate_subjects == "any":
        off |= {SUBJECT_RESTRICTION}
    return disabled | (off - enabled)


def refuse_both(enabled: frozenset[str], disabled: frozenset[str]) -> None:
    """Raise ValueError for plugins that are both enabled and disabled."""
    if both := sorted(enabled & disabled):
        raise ValueError(f"{', '.join(both)} is in --enable-admission-plugins too; leave one of them out")
