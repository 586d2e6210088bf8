"""What metrics report of authorization: decisions by authorizer, calls and match conditions of webhooks, reloads.

Plain numbers, which authorizers add to and `gateway/ops/meters.py` reads. They outlive a reload of the configuration:
an authorizer of the same type and name goes on counting where the one before stopped. An operator chooses the names,
but a file that changes all the time could name ever more: beyond MAX_NAMES, further ones are counted together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final

from rewound.actors.runtime.followed_file import Reloads

CALL_BOUNDS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)  # seconds, as in Kubernetes
CONDITION_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
MAX_NAMES: Final = 1000
OTHER: Final = "other"
SUCCESS, TIMEOUT, ERROR, CANCELED = "success", "timeout", "error", "canceled"


class Durations:
    __slots__ = ("_bounds", "counts", "seconds")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last is for those above all bounds
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.counts[bisect_left(self._bounds, seconds)] += 1


class WebhookStatistics:
    """The numbers of one webhook."""

    def __init__(self) -> None:
        self.calls: dict[str, Durations] = {}  # by result
        self.failures_open: dict[str, int] = {}  # by the result of the last try
        self.conditions = Durations(CONDITION_BOUNDS)
        self.exclusions = self.condition_errors = 0
        self._last = ERROR

    def called(self, result: str, seconds: float) -> None:
        """Count one try of a call."""
        self._last = result
        self.calls.setdefault(result, Durations(CALL_BOUNDS)).add(seconds)

    def failed_open(self) -> None:
        self.failures_open[self._last] = self.failures_open.get(self._last, 0) + 1

    def evaluated(self, seconds: float, *, excluded: bool = False, failed: bool = False) -> None:
        """Count an evaluation of all conditions for one request."""
        self.conditions.add(seconds)
        self.exclusions += excluded
        self.condition_errors += failed


class AuthorizationStatistics:
    def __init__(self) -> None:
        self.decisions: dict[tuple[str, str], list[int]] = {}  # denied and allowed, by type and name
        self.webhooks: dict[str, WebhookStatistics] = {}  # by name
        self.reloads: Reloads | None = None  # None: there is no file

    def decisions_of(self, type_: str, name: str) -> list[int]:
        known = len(self.decisions) < MAX_NAMES or (type_, name) in self.decisions
        return self.decisions.setdefault((type_, name if known else OTHER), [0, 0])

    def webhook(self, name: str) -> WebhookStatistics:
        known = len(self.webhooks) < MAX_NAMES or name in self.webhooks
        return self.webhooks.setdefault(name if known else OTHER, WebhookStatistics())

    def by_webhook(
        self, read: Callable[[WebhookStatistics], Mapping[str, float]]
    ) -> dict[tuple[str, ...], float]:
        """What `read` returns of each webhook, by name and label."""
        return {
            (name, label): value for name, one in self.webhooks.items() for label, value in read(one).items()
        }
