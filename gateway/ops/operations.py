"""What operators see of a server, and what limits it, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from actors.flowcontrol.in_flight import InFlightLimits
from actors.flowcontrol.priority_and_fairness import PriorityAndFairness
from gateway.ops.health import Health
from gateway.ops.loop_watchdog import LoopWatchdog
from gateway.ops.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Operations:
    health: Health
    metrics: Metrics
    limits: PriorityAndFairness | InFlightLimits  # of requests that run at the same time
    watchdog: LoopWatchdog
