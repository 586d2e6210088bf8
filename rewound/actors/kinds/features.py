"""Feature gates: their names, and the parser of `--feature-gates Name=true|false,...`.

Kinds import the names of the features that their fields depend on; the catalog is built with the set of enabled
features. Features in ALPHA and BETA are off by default, and their fields are dropped from requests; those in LATER,
which v1.25 does not have, are off too, and AllAlpha does not switch them on; those in ON_BY_DEFAULT are on unless
switched off. Those in LOCKED are always on: switching one on has no effect, and switching one off is refused, because
the server would not obey.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONTAINER_METRICS: Final = "HPAContainerMetrics"
SCALE_TO_ZERO: Final = "HPAScaleToZero"
AUTO_DELETE: Final = "StatefulSetAutoDeletePVC"
MAX_UNAVAILABLE: Final = "MaxUnavailableStatefulSet"
FAILURE_POLICY: Final = "JobPodFailurePolicy"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"  # also the name of the access mode
NODE_EXPAND_SECRET: Final = "CSINodeExpandSecret"
RECOVER_EXPANSION: Final = "RecoverVolumeExpansionFailure"
RETROACTIVE_CLASS: Final = "RetroactiveDefaultStorageClass"
SE_LINUX_MOUNT: Final = "SELinuxMountReadWriteOncePod"
POLICY_STATUS: Final = "NetworkPolicyStatus"
USER_NAMESPACES: Final = "UserNamespacesStatelessPodsSupport"
PROC_MOUNT: Final = "ProcMountType"
EXPANDED_DNS: Final = "ExpandedDNSConfig"
SPREAD_INCLUSION: Final = "NodeInclusionPolicyInPodTopologySpread"
SPREAD_LABEL_KEYS: Final = "MatchLabelKeysInPodTopologySpread"
MIN_DOMAINS: Final = "MinDomainsInPodTopologySpread"
LIST_CHUNKING: Final = "APIListChunking"  # lists honour limit and continue
WATCH_LIST: Final = "WatchList"  # watches honour sendInitialEvents

ALPHA: Final = frozenset(
    {
        CONTAINER_METRICS,
        SCALE_TO_ZERO,
        AUTO_DELETE,
        MAX_UNAVAILABLE,
        FAILURE_POLICY,
        READ_WRITE_ONCE_POD,
        NODE_EXPAND_SECRET,
        RECOVER_EXPANSION,
        RETROACTIVE_CLASS,
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
LATER: Final = frozenset({WATCH_LIST})
ON_BY_DEFAULT: Final = frozenset({LIST_CHUNKING})
LOCKED: Final = frozenset(
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
    """Return the enabled features. Raises ValueError, which says which gate is wrong, and why."""
    given: dict[str, bool] = {}
    for entry in text.split(","):
        if entry.strip():
            name, value = _gate(entry.strip())
            given[name] = value
    _refuse_locked(given)
    gates = dict.fromkeys(ALPHA, given.get(ALL_ALPHA, False))
    gates |= dict.fromkeys(BETA, given.get(ALL_BETA, False))
    gates |= dict.fromkeys(LATER, False)
    gates |= dict.fromkeys(ON_BY_DEFAULT, True)
    return frozenset(name for name, on in gates.items() if given.get(name, on))


def _gate(entry: str) -> tuple[str, bool]:
    name, equals, value = entry.partition("=")
    if not equals:
        raise ValueError(f"{entry!r} has no value; write {entry}=true or {entry}=false")
    if name not in ALPHA | BETA | LATER | ON_BY_DEFAULT | LOCKED | {ALL_ALPHA, ALL_BETA}:
        raise ValueError(f"there is no feature {name!r} here; {_suggestion(name)}")
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{entry!r} is neither true nor false")
    return name, value.lower() == "true"


def _refuse_locked(given: Mapping[str, bool]) -> None:
    for name, value in given.items():
        if not value and (name in LOCKED or name == ALL_BETA):
            raise ValueError(f"{name} cannot be switched off: this server always has it")


def _suggestion(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, ALPHA | BETA | LATER | ON_BY_DEFAULT | LOCKED, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"these are off until asked for: {', '.join(sorted(ALPHA | BETA | LATER))}"
