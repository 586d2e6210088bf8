"""What operators see of a server, and its limits, as one value."""

from __future__ import annotations

import msgspec

from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.flowcontrol.priority_and_fairness import PriorityAndFairness
from rewound.gateway.ops.health import Health
from rewound.gateway.ops.loop_watchdog import LoopWatchdog
from rewound.gateway.ops.metrics import Metrics


class Operations(msgspec.Struct, frozen=True):
    health: Health
    metrics: Metrics
    limits: PriorityAndFairness | InFlightLimits  # of requests that run at the same time
    watchdog: LoopWatchdog
