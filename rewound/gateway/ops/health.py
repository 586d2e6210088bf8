"""Health checks behind /livez, /readyz and /healthz, reported in the format of kube-apiserver.

`checks` adds the checks; `paths` serves the reports. Only the path of a single check, which needs authorization,
reports the reason of a failure; the summaries are public and withhold it. Until --livez-grace-period is over, livez
passes checks that wait for the start (`starting`); readyz and healthz never do.

Reports are a pure function of the checks and the time. Nothing here waits, so probes must return at once; those about
another process read what `refresh`, which is called before a report, has fetched.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec

KINDS = ("livez", "readyz", "healthz")
# The problem as a sentence; None if there is none.
Probe = Callable[[], str | None]

logger = logging.getLogger(__name__)


class ReportFormat(msgspec.Struct, frozen=True):
    """The differences between profiles."""

    start: tuple[str, ...] = ("start",)  # checks that pass when the start is finished
    order: tuple[str, ...] = ()  # order of checks in reports; by default that in which they were added
    passed: str = ""  # what the last line says has passed; empty: the kind of the report


class Check(msgspec.Struct, frozen=True):
    name: str
    probe: Probe
    kinds: tuple[str, ...] = KINDS
    starting: bool = False  # fails until the start is finished; livez passes it during its grace period

    def problem(self) -> str | None:
        try:
            return self.probe()
        except Exception as error:
            logger.exception("the health check %s failed", self.name)
            return f"the check itself failed: {error}"


class Health:
    """The checks of one server. `clock` returns monotonic seconds; the grace period starts now."""

    def __init__(
        self, clock: Callable[[], float], livez_grace: float = 0.0, format_: ReportFormat | None = None
    ) -> None:
        self._clock = clock
        self._format = format_ or ReportFormat()
        self._places = {name: place for place, name in enumerate(self._format.order)}
        self._grace_until = clock() + livez_grace
        self._started = self._stopping = False
        self._checks: list[Check] = []
        self.refresh: Callable[[], Awaitable[None]] | None = None
        self.add("ping", lambda: None)
        for name in self._format.start:
            self.add(name, self.start_problem, starting=True)
        # Only readyz: a server that shuts down should get no new requests, but must not be killed.
        stopping = "the server is shutting down"
        self.add("shutdown", lambda: stopping if self._stopping else None, kinds=("readyz",))

    def add(self, name: str, probe: Probe, *, kinds: tuple[str, ...] = KINDS, starting: bool = False) -> None:
        self._checks.append(Check(name, probe, kinds, starting))
        self._checks.sort(key=lambda check: self._places.get(check.name, len(self._places)))

    def start_problem(self) -> str | None:
        return None if self._started else "the start is not finished"

    def finish_start(self) -> None:
        self._started = True

    def begin_shutdown(self) -> None:
        self._stopping = True

    def names(self, kind: str) -> list[str]:
        return [check.name for check in self._of(kind)]

    def report(
        self, kind: str, single: str = "", *, verbose: bool = False, exclude: Collection[str] = ()
    ) -> tuple[int, str] | None:
        """Status code and text; None for an unknown single check."""
        in_grace = kind == "livez" and self._clock() < self._grace_until
        checks = self._of(kind)
        if single:
            return report_one(checks, single, in_grace=in_grace)
        return report_all(
            kind, checks, verbose=verbose, exclude=exclude, in_grace=in_grace, passed=self._format.passed
        )

    def _of(self, kind: str) -> list[Check]:
        return [check for check in self._checks if kind in check.kinds]


def report_one(checks: Sequence[Check], name: str, *, in_grace: bool) -> tuple[int, str] | None:
    for check in checks:
        if check.name == name:
            problem = None if in_grace and check.starting else check.problem()
            return (200, "ok") if problem is None else (500, f"internal server error: {problem}\n")
    return None


def report_all(
    kind: str,
    checks: Sequence[Check],
    *,
    verbose: bool,
    exclude: Collection[str],
    in_grace: bool,
    passed: str = "",
) -> tuple[int, str]:
    lines: list[str] = []
    failed: list[str] = []
    for check in checks:
        if check.name in exclude:
            lines.append(f"[+]{check.name} excluded: ok\n")
        elif (in_grace and check.starting) or (problem := check.problem()) is None:
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
    return 200, "".join([*lines, f"{passed or kind} check passed\n"]) if verbose else "ok"
