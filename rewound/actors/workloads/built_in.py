"""The workload controllers that a server runs, by their names in v1.25."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import Controller, Loop
from rewound.actors.versions.features import (
    DEVICE_TAINTS,
    DYNAMIC_ALLOCATION,
    POOL_STATUS,
    SEPARATE_TAINT_EVICTION,
    STRUCTURED_DEVICES,
)
from rewound.actors.workloads.autoscaling import HorizontalPodAutoscalers
from rewound.actors.workloads.controller import Parts
from rewound.actors.workloads.cronjobs import CronJobs
from rewound.actors.workloads.daemonsets import DaemonSets
from rewound.actors.workloads.deployments import Deployments
from rewound.actors.workloads.device_taints import DeviceTaintEviction
from rewound.actors.workloads.disruption import Disruption
from rewound.actors.workloads.endpoint_mirroring import EndpointSliceMirroring
from rewound.actors.workloads.endpoint_slices import EndpointSlices
from rewound.actors.workloads.endpoints import Endpoints
from rewound.actors.workloads.jobs import Jobs
from rewound.actors.workloads.node_ipam import NodeIpam
from rewound.actors.workloads.node_lifecycle import NodeLifecycle
from rewound.actors.workloads.pool_status import PoolStatusRequests
from rewound.actors.workloads.replicasets import ReplicaSets, ReplicationControllers
from rewound.actors.workloads.resource_claims import ResourceClaims
from rewound.actors.workloads.statefulsets import StatefulSets
from rewound.actors.workloads.taint_eviction import TaintEviction
from rewound.actors.workloads.ttl import FinishedJobs, NodeTTLs
from rewound.actors.workloads.volume_attachment import AttachDetach
from rewound.actors.workloads.volume_expansion import VolumeExpander
from rewound.actors.workloads.volumes import VolumeBinder

Task = tuple[str, Callable[[], Awaitable[None]]]
Build = Callable[[Parts], Controller[Any]]
BY_NAME: Final[dict[str, Build]] = {
    "attachdetach": AttachDetach,
    "cronjob": CronJobs,
    "daemonset": DaemonSets,
    "deployment": Deployments,
    "device-taint-eviction-controller": DeviceTaintEviction,
    "disruption": Disruption,
    "endpoint": Endpoints,
    "endpointslice": EndpointSlices,
    "endpointslicemirroring": EndpointSliceMirroring,
    "horizontalpodautoscaling": HorizontalPodAutoscalers,
    "job": Jobs,
    "nodeipam": NodeIpam,
    "nodelifecycle": NodeLifecycle,
    "persistentvolume-binder": VolumeBinder,
    "persistentvolume-expander": VolumeExpander,
    "replicaset": ReplicaSets,
    "replicationcontroller": ReplicationControllers,
    "resourceclaim-controller": ResourceClaims,
    PoolStatusRequests.name: PoolStatusRequests,
    "statefulset": StatefulSets,
    TaintEviction.name: TaintEviction,
    "ttl": NodeTTLs,
    "ttl-after-finished": FinishedJobs,
}
# The features without which a controller does not run.
NEEDS: Final[dict[str, frozenset[str]]] = {
    "device-taint-eviction-controller": frozenset({DYNAMIC_ALLOCATION, STRUCTURED_DEVICES, DEVICE_TAINTS}),
    "node-devices": frozenset({DYNAMIC_ALLOCATION, STRUCTURED_DEVICES}),
    "resourceclaim-controller": frozenset({DYNAMIC_ALLOCATION, STRUCTURED_DEVICES}),
    PoolStatusRequests.name: frozenset({DYNAMIC_ALLOCATION, STRUCTURED_DEVICES, POOL_STATUS}),
}


class Workloads:
    """The loops of the selected controllers, and the tasks that they need: all run under the supervisor."""

    def __init__(self, context: ControllerContext, more: Iterable[tuple[str, Build]] = ()) -> None:
        """`more` are controllers of other folders that share the cache."""
        lacking = {name for name, needed in NEEDS.items() if not needed <= context.features}
        if not context.workloads.allocate_node_cidrs:
            lacking.add(NodeIpam.name)
        builders = {name: build for name, build in {**BY_NAME, **dict(more)}.items() if name not in lacking}
        enabled = set(builders) if context.enabled is None else builders.keys() & context.enabled
        if SEPARATE_TAINT_EVICTION not in context.features:
            enabled.discard(TaintEviction.name)
            enabled |= {TaintEviction.name} if NodeLifecycle.name in enabled else set()
        self.parts = Parts.of(context)
        self.loops = tuple(Loop(builders[name](self.parts), context.feed) for name in sorted(enabled))

    @property
    def tasks(self) -> tuple[Task, ...]:
        if not self.loops:
            return ()
        own: tuple[Task, ...] = (("workload cache", self.parts.cache.run), ("events", self.parts.events.run))
        return (*own, *((loop.name, loop.run) for loop in self.loops))
