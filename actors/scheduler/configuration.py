"""The configuration of the scheduler: its profiles, and how it samples nodes and backs off.

Without a file there is one profile, default-scheduler, with the plugins and weights of v1.25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rewound.actors.scheduler.evaluation import Profile
from rewound.actors.scheduler.plugins import (
    NodeAffinity,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    Plugin,
    TaintToleration,
)
from rewound.actors.scheduler.pod_affinity import InterPodAffinity
from rewound.actors.scheduler.queue import INITIAL_BACKOFF, LONGEST_BACKOFF
from rewound.actors.scheduler.resources import (
    ImageLocality,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from rewound.actors.scheduler.spread import PodTopologySpread
from rewound.actors.scheduler.volumes import (
    DISK_KINDS,
    DiskLimits,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

DEFAULT_NAME: Final = "default-scheduler"
# In the order in which v1.25 asks them; those that score with their weights.
_DEFAULTS: Final[Mapping[str, int]] = {
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "EBSLimits": 0,
    "GCEPDLimits": 0,
    "NodeVolumeLimits": 0,
    "AzureDiskLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    profiles: Mapping[str, Profile]
    percentage_of_nodes: int = 0  # of nodes that do, to be scored; 0: by the number of nodes
    initial_backoff: float = INITIAL_BACKOFF
    longest_backoff: float = LONGEST_BACKOFF
    bind_timeout: float = 600.0  # seconds for volumes to be bound

    def wakes(self) -> dict[str, frozenset[str]]:
        """The plugins that each sort of change may help."""
        found: dict[str, frozenset[str]] = {}
        for profile in self.profiles.values():
            for plugin in profile.plugins:
                for change in plugin.wakes:
                    found[change] = found.get(change, frozenset()) | {plugin.name}
        return found


def default_configuration() -> SchedulerConfiguration:
    plugins = {plugin.name: plugin for plugin in _default_plugins()}
    profile = Profile(
        DEFAULT_NAME,
        tuple(plugins[name] for name in _DEFAULTS if plugins[name].filters),
        tuple((plugins[name], weight) for name, weight in _DEFAULTS.items() if weight),
    )
    return SchedulerConfiguration({DEFAULT_NAME: profile})


def _default_plugins() -> list[Plugin]:
    return [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        VolumeRestrictions(),
        *(DiskLimits(kind) for kind in DISK_KINDS.values()),
        NodeVolumeLimits(),
        VolumeBinding(),
        VolumeZone(),
        PodTopologySpread(),
        InterPodAffinity(),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
    ]
