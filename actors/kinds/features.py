"""Features that operators switch with `--feature-gates Name=true|false,...`: their names, and reading the flag.

Kinds import the name of the feature that one of their fields waits for; the catalog is made with the set of those
that are on. Those in ALPHA and BETA are off unless asked for, and what belongs to them is dropped from what comes in;
those in USUAL are on until they are switched off.
Those in SETTLED are part of the server: asking for them changes nothing, and switching one off is refused, because
a server that goes on as before would be a lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONTAINER_METRICS: Final = "HPAContainerMetrics"
SCALE_TO_ZERO: Final = "HPAScaleToZero"
AUTO_DELETE: Final = "StatefulSetAutoDeletePVC"
MAX_UNAVAILABLE: Final = "MaxUnavailableStatefulSet"
FAILURE_POLICY: Final = "JobPodFailurePolicy"
ONE_POD_MODE: Final = "ReadWriteOncePod"  # the name of its access mode too
NODE_EXPAND_SECRET: Final = "CSINodeExpandSecret"
RECOVERY: Final = "RecoverVolumeExpansionFailure"
CLASS_AFTERWARDS: Final = "RetroactiveDefaultStorageClass"
SE_LINUX_MOUNT: Final = "SELinuxMountReadWriteOncePod"
POLICY_STATUS: Final = "NetworkPolicyStatus"
USER_NAMESPACES: Final = "UserNamespacesStatelessPodsSupport"
PROC_MOUNT: Final = "ProcMountType"
EXPANDED_DNS: Final = "ExpandedDNSConfig"
SPREAD_INCLUSION: Final = "NodeInclusionPolicyInPodTopologySpread"
SPREAD_LABEL_KEYS: Final = "MatchLabelKeysInPodTopologySpread"
MIN_DOMAINS: Final = "MinDomainsInPodTopologySpread"
LIST_CHUNKING: Final = "APIListChunking"  # lists heed limit and continue

ALPHA: Final = frozenset(
    {
        CONTAINER_METRICS,
        SCALE_TO_ZERO,
        AUTO_DELETE,
        MAX_UNAVAILABLE,
        FAILURE_POLICY,
        ONE_POD_MODE,
        NODE_EXPAND_SECRET,
        RECOVERY,
        CLASS_AFTERWARDS,
        SE_LINUX_MOUNT,
        POLICY_STATUS,
        USER_NAMESPACES,
        PROC_MOUNT,
        EXPANDED_DNS,
        SPREAD_INCLUSION,
        SPREAD_LABEL_KEYS,
    }
)
BETA: Final = frozenset({MIN_DOMAINS})
USUAL: Final = frozenset({LIST_CHUNKING})
SETTLED: Final = frozenset(
    {
        "AnyVolumeDataSource",
        "CronJobTimeZone",
        "CSIInlineVolume",
        "CSIStorageCapacity",
        "DryRun",
        "EphemeralContainers",
        "GenericEphemeralVolume",
        "GRPCContainerProbe",
        "IdentifyPodOS",
        "PodOverhead",
        "ProbeTerminationGracePeriod",
        "RunAsGroup",
        "ServerSideApply",
        "ServerSideFieldValidation",
        "ServiceInternalTrafficPolicy",
        "StatefulSetMinReadySeconds",
        "SuspendJob",
        "TTLAfterFinished",
        "WatchBookmark",
        "WindowsHostProcessContainers",
    }
)
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"


def parse_features(text: str) -> frozenset[str]:
    """The features that are on. ValueError says which gate is wrong, and why."""
    given: dict[str, bool] = {}
    for entry in text.split(","):
        if entry.strip():
            name, value = _gate(entry.strip())
            given[name] = value
    _refuse_locked(given)
    usual = dict.fromkeys(ALPHA, given.get(ALL_ALPHA, False))
    usual |= dict.fromkeys(BETA, given.get(ALL_BETA, False))
    usual |= dict.fromkeys(USUAL, True)
    return frozenset(name for name, on in usual.items() if given.get(name, on))


def _gate(entry: str) -> tuple[str, bool]:
    name, equals, value = entry.partition("=")
    if not equals:
        raise ValueError(f"{entry!r} has no value; write {entry}=true or {entry}=false")
    if name not in ALPHA | BETA | USUAL | SETTLED | {ALL_ALPHA, ALL_BETA}:
        raise ValueError(f"there is no feature {name!r} here; {_suggestion(name)}")
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{entry!r} is neither true nor false")
    return name, value.lower() == "true"


def _refuse_locked(given: Mapping[str, bool]) -> None:
    for name, value in given.items():
        if not value and (name in SETTLED or name == ALL_BETA):
            raise ValueError(f"{name} cannot be switched off: this server always has it")


def _suggestion(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, ALPHA | BETA | USUAL | SETTLED, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"these are off until asked for: {', '.join(sorted(ALPHA | BETA))}"
