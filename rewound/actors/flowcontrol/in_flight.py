"""The limits of a server without priority and fairness: so many read-only and so many mutating requests at once.

A request beyond them is rejected at once. Long-running requests and members of system:masters are not limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import maxsize

from rewound.actors.access.authorize import Attributes
from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.leases import Holder
from rewound.actors.flowcontrol.priority_and_fairness import LONG_RUNNING
from rewound.actors.flowcontrol.seats import Flow, Level, SchemaCounts, Seats, level_quotas
from rewound.actors.identity import MASTERS

READ_ONLY, MUTATING = "readOnly", "mutating"
_READ_VERBS = frozenset({"get", "list"})


class InFlightLimits(Seats):
    def __init__(self, reading: int, changing: int, holder: Holder | None = None) -> None:
        """0 means no limit."""
        super().__init__(turn=maxsize, holder=holder)
        self._read_only = self._flow(READ_ONLY, reading)
        self._mutating = self._flow(MUTATING, changing)
        self._unlimited = Flow(
            Level(LevelSettings("", "", exempt=True)), _counts(""), (), None, limited=False
        )

    def _flow(self, name: str, seats: int) -> Flow:
        level = self.set_level(_settings(name, seats))
        return Flow(level, _counts(name), (0,), None, limited=True)

    def flow_of(self, request: Attributes) -> Flow:
        if request.verb == "watch" or request.subresource in LONG_RUNNING or MASTERS in request.user.groups:
            return self._unlimited
        return self._read_only if request.verb in _READ_VERBS else self._mutating

    def counts(self) -> Iterator[SchemaCounts]:
        return iter((self._read_only.counts, self._mutating.counts))


def in_flight_quotas(reading: int, changing: int) -> dict[str, int]:
    """The limits of all workers together, by quota."""
    levels = [_settings(name, seats) for name, seats in ((READ_ONLY, reading), (MUTATING, changing)) if seats]
    return level_quotas(levels)


def _settings(name: str, seats: int) -> LevelSettings:
    return LevelSettings(name, "", exempt=False, seats=seats or maxsize, rejects=True)


def _counts(name: str) -> SchemaCounts:
    return SchemaCounts(name, name)
