"""A run put together, and the document that is written of it as JSON.

The document is the result; tables and charts are readings of the same report and hold nothing else.
"""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass
from typing import Any

from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.targets import Verdict, judge
from benchmarks.servers.machine import git_describe

FORMAT = 1
OURS = "rewound"
JOURNAL = "journal"
BOOKS = "ownership"
ALONE = (JOURNAL, BOOKS)


@dataclass(frozen=True, slots=True)
class Measured:
    """One server of a run, or a part of ours that was measured by itself, with what was measured of it."""

    name: str
    version: str
    tls: bool
    measurements: dict[str, Measurement]
    skipped: dict[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    options: Options
    machine: dict[str, Any]
    titles: dict[str, str]
    floors: dict[str, Measurement]
    subjects: tuple[Measured, ...]  # the servers, and last what was measured by itself

    @property
    def ours(self) -> Measured | None:
        return self._named(OURS)

    @property
    def other(self) -> Measured | None:
        """A server that was measured in the same run, to compare with."""
        return next((each for each in self.subjects if each.name not in (OURS, *ALONE)), None)

    def verdicts(self) -> list[Verdict]:
        found = [each.measurements for each in map(self._named, (OURS, *ALONE)) if each]
        return judge({work: each for measurements in found for work, each in measurements.items()})

    def _named(self, name: str) -> Measured | None:
        return next((each for each in self.subjects if each.name == name), None)

    def document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "taken": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "git": git_describe(),
            "machine": self.machine,
            "quick": self.options.quick,
            "sizes": dataclasses.asdict(self.options.sizes),
            "floors": {name: _plain(each) for name, each in self.floors.items()},
            "subjects": [self._subject(each) for each in self.subjects],
            "bars": [_verdict(each) for each in self.verdicts()],
        }

    def _subject(self, subject: Measured) -> dict[str, Any]:
        return {
            "name": subject.name,
            "version": subject.version,
            "tls": subject.tls,
            "measurements": {
                work: {"title": self.titles[work], **_plain(each)}
                for work, each in subject.measurements.items()
            },
            "skipped": subject.skipped,
        }


def _plain(each: Measurement) -> dict[str, Any]:
    return {"figures": each.figures, "notes": each.notes}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {**dataclasses.asdict(verdict.bar), "measured": verdict.figure, "met": verdict.met}
