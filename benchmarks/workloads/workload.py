"""A workload: its name, its title and the function that runs it on a subject.

The subject is a `MeasuredServer` for most; the journal's workloads take a `LargeJournal`, those of ownership the
sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement

Subject = TypeVar("Subject")


class Skipped(Exception):
    """The workload cannot run on this subject; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Workload(Generic[Subject]):
    name: str
    title: str  # contains names of sizes in braces
    run: Callable[[Subject], Measurement]

    def title_for(self, sizes: Sizes) -> str:
        return self.title.format(**{name: f"{value:,}" for name, value in asdict(sizes).items()})
