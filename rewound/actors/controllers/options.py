"""Options of controllers set by flags, with the names and defaults of kube-controller-manager v1.25.

No imports, so that reading the flags loads no controller. Times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    default_storage_class: str = ""  # created at start, with volumes of this server; v1.25 has no such flag
    pvclaimbinder_sync_period: float = 15.0  # until an unbound claim is checked again
    node_monitor_period: float = 5.0  # between a change of a node's health and the taints that evict
    node_monitor_grace_period: float = 40.0  # without a sign of life of a node, until it is unknown
    node_startup_grace_period: float = 60.0  # the same for a node that has not reported its state yet
    node_eviction_rate: float = 0.1  # nodes per second and zone that get evicting taints
    secondary_node_eviction_rate: float = 0.01  # the same in a large zone that is partially disrupted
    large_cluster_size_threshold: int = 50  # up to this size, a partially disrupted zone has the rate 0
    unhealthy_zone_threshold: float = 0.55  # fraction of unready nodes at which a zone is partially disrupted
    allocate_node_cidrs: bool = False  # whether nodes get networks for their pods
    cluster_cidr: str = ""  # the networks that are divided among nodes, at most one of each address family
    node_cidr_mask_size: int = (
        0  # the prefix length of a node's network, for one address family; 0: the default
    )
    node_cidr_mask_size_ipv4: int = 0  # 24 by default
    node_cidr_mask_size_ipv6: int = 0  # 64 by default
    node_events: str = ""  # of simulated nodes: none, failures or all; empty: by the number of pods
    terminated_pod_gc_threshold: int = 12500  # finished pods that may stay; 0: all
    horizontal_pod_autoscaler_sync_period: float = 15.0  # between two evaluations of an autoscaler
    # The highest recommendation of this period applies.
    horizontal_pod_autoscaler_downscale_stabilization: float = 300.0
    horizontal_pod_autoscaler_tolerance: float = 0.1  # of the ratio of a metric to its target
    # CPU usage within this time after the start of a pod may be ignored.
    horizontal_pod_autoscaler_cpu_initialization_period: float = 300.0
    # A pod that becomes unready this soon after its start was never ready.
    horizontal_pod_autoscaler_initial_readiness_delay: float = 30.0
