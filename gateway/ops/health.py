"""Health: named checks behind /livez, /readyz and /healthz, reported the way Kubernetes operators read them.

`compose` adds the checks; `paths` asks for reports. What a check finds is told in full only on its own
path, which needs rights; the summaries are public and withhold it. livez passes a check that waits for the
start (`starting`) until --livez-grace-period is over; readyz and healthz never do.

Reports are a pure function of the checks and the time; nothing here waits, so a probe must answer from what
it already knows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

KINDS = ("livez", "readyz", "healthz")
# What is wrong in a sentence, None where nothing is.
Probe = Callable[[], str | None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    probe: Probe
    kinds: tuple[str, ...] = KINDS
    starting: bool = False  # fails until the start is finished, which livez may forgive for a while

    def problem(self) -> str | None:
        try:
            return self.probe()
        except Exception as error:
            logger.exception("the health check %s failed", self.name)
            return f"the check itself failed: {error}"


class Health:
    """The checks of one server. `clock` counts seconds from anywhere; the grace period begins now.

    The checks named in `start` pass when the start is finished.
    """

    def __init__(
        self, clock: Callable[[], float], livez_grace: float = 0.0, start: Sequence[str] = ("start",)
    ) -> None:
        self._clock = clock
        self._forgiving_until = clock() + livez_grace
        self._started = self._stopping = False
        self._checks: list[Check] = []
        self.add("ping", lambda: None)
        for name in start:
            self.add(name, lambda: None if self._started else "the start is not finished", starting=True)
        # Only readyz: a server that shuts down should get no new work, but is no reason to kill it.
        stopping = "the server is shutting down"
        self.add("shutdown", lambda: stopping if self._stopping else None, kinds=("readyz",))

    def add(self, name: str, probe: Probe, *, kinds: tuple[str, ...] = KINDS, starting: bool = False) -> None:
        self._checks.append(Check(name, probe, kinds, starting))

    def finish_start(self) -> None:
        self._started = True

    def begin_shutdown(self) -> None:
        self._stopping = True

    def names(self, kind: str) -> list[str]:
        return [check.name for check in self._of(kind)]

    def report(
        self, kind: str, single: str = "", *, verbose: bool = False, exclude: Collection[str] = ()
    ) -> tuple[int, str] | None:
        """Status code and text; None for a single check that this kind does not have."""
        forgiven = kind == "livez" and self._clock() < self._forgiving_until
        checks = self._of(kind)
        if single:
            return report_one(checks, single, forgiven=forgiven)
        return report_all(kind, checks, verbose=verbose, exclude=exclude, forgiven=forgiven)

    def _of(self, kind: str) -> list[Check]:
        return [check for check in self._checks if kind in check.kinds]


def report_one(checks: Sequence[Check], name: str, *, forgiven: bool) -> tuple[int, str] | None:
    for check in checks:
        if check.name == name:
            problem = None if forgiven and check.starting else check.problem()
            return (200, "ok") if problem is None else (500, f"internal server error: {problem}\n")
    return None


def report_all(
    kind: str, checks: Sequence[Check], *, verbose: bool, exclude: Collection[str], forgiven: bool
) -> tuple[int, str]:
    lines: list[str] = []
    failed: list[str] = []
    for check in checks:
        if check.name in exclude:
            lines.append(f"[+]{check.name} excluded: ok\n")
        elif (forgiven and check.starting) or (problem := check.problem()) is None:
            lines.append(f"[+]{check.name} ok\n")
        else:
            lines.append(f"[-]{check.name} failed: reason withheld\n")
            failed.append(f"{check.name}: {problem}")
    unknown = sorted(set(exclude).difference(check.name for check in checks))
    if unknown:
        listed = ",".join(json.dumps(name, ensure_ascii=False) for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}\n")
    if failed:
        logger.info("%s failed: %s", kind, "; ".join(failed))
        return 500, "".join([*lines, f"{kind} check failed\n"])
    return 200, "".join([*lines, f"{kind} check passed\n"]) if verbose else "ok"
