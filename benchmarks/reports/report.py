"""The results of a run and their JSON document.

Tables and charts contain only what the document contains. Its keys (`floors`, `bars`, `words`, ...) stay as they are,
so that older documents can be compared with newer ones.
"""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass
from typing import Any

from benchmarks.options import Options
from benchmarks.reports.comparison import Compared, compared
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.targets import TargetResult, check_targets
from benchmarks.servers.machine import git_describe

FORMAT = 1
OURS = "rewound"
BEFORE = "rewound "  # and a version or commit
JOURNAL = "journal"
OWNERSHIP = "ownership"
COMPONENTS = (JOURNAL, OWNERSHIP)


@dataclass(frozen=True, slots=True)
class SubjectResults:
    """The measurements of one server, of the journal or of field ownership."""

    name: str
    version: str
    tls: bool
    measurements: dict[str, Measurement]
    skipped: dict[str, str]

    @property
    def figures(self) -> dict[str, dict[str, float]]:
        """By workload."""
        return {work: each.figures for work, each in self.measurements.items()}


@dataclass(frozen=True, slots=True)
class Report:
    options: Options
    machine: dict[str, Any]
    titles: dict[str, str]
    baselines: dict[str, Measurement]
    subjects: tuple[SubjectResults, ...]  # the servers, then the journal and field ownership

    @property
    def ours(self) -> SubjectResults | None:
        return self._named(OURS)

    @property
    def other(self) -> SubjectResults | None:
        """The other server of the same run, to compare with."""
        others = (each for each in self.subjects if each.name not in (OURS, *COMPONENTS))
        return next((each for each in others if not each.name.startswith(BEFORE)), None)

    @property
    def before(self) -> SubjectResults | None:
        """Ours at an earlier commit."""
        return next((each for each in self.subjects if each.name.startswith(BEFORE)), None)

    def compared(self) -> list[Compared]:
        if self.ours is None or self.before is None:
            return []
        return compared(self.before.measurements, self.ours.measurements)

    def target_results(self) -> list[TargetResult]:
        found = [each.measurements for each in map(self._named, (OURS, *COMPONENTS)) if each]
        return check_targets({work: each for measurements in found for work, each in measurements.items()})

    def _named(self, name: str) -> SubjectResults | None:
        return next((each for each in self.subjects if each.name == name), None)

    def document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "taken": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "git": git_describe(),
            "machine": self.machine,
            "quick": self.options.quick,
            "sizes": dataclasses.asdict(self.options.sizes),
            "floors": {name: _plain(each) for name, each in self.baselines.items()},
            "subjects": [self._subject(each) for each in self.subjects],
            "compared": [each.document() for each in self.compared()],
            "bars": [_target_result(each) for each in self.target_results()],
        }

    def _subject(self, subject: SubjectResults) -> dict[str, Any]:
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


def _target_result(result: TargetResult) -> dict[str, Any]:
    target = result.target
    return {
        "work": target.work,
        "figure": target.figure,
        "at_most": target.at_most,
        "words": target.title,
        "at_least": target.at_least,
        "measured": result.measured,
        "met": result.met,
    }
