"""What flags say about how controllers work, with the names and defaults of kube-controller-manager v1.25.

Without imports, so that reading the flags loads no controller. Times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    pvclaimbinder_sync_period: float = 15.0  # after which a claim that is not bound is looked at again
