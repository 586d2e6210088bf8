"""A workload: its name, its title and the function that runs it on a subject.

The subject is a `MeasuredServer` for most; the journal's workloads take a `LargeJournal`, those of ownership the
sizes. A `Comparison` measures several at once, whose rounds take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Generic, Protocol, TypeVar

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement

Subject = TypeVar("Subject")
MeasuredSubject = TypeVar("MeasuredSubject", contravariant=True)


class Skipped(Exception):
    """The workload cannot run on this subject; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Workload(Generic[Subject]):
    name: str
    title: str  # contains names of sizes in braces
    run: Callable[[Subject], Measurement]

    def titles_for(self, sizes: Sizes) -> dict[str, str]:
        return {self.name: _with_sizes(self.title, sizes)}

    def measure(self, subject: Subject) -> Sequence[Measurement]:
        return (self.run(subject),)


@dataclass(frozen=True, slots=True)
class Comparison(Generic[Subject]):
    """Work over several transports: measurements whose rounds take turns, so that their ratios are comparable."""

    name: str  # one of `titles`
    titles: dict[str, str]  # of each measurement
    run: Callable[[Subject], Sequence[Measurement]]

    def titles_for(self, sizes: Sizes) -> dict[str, str]:
        return {name: _with_sizes(title, sizes) for name, title in self.titles.items()}

    def measure(self, subject: Subject) -> Sequence[Measurement]:
        return self.run(subject)


class AnyWorkload(Protocol[MeasuredSubject]):
    """A workload or a comparison."""

    @property
    def name(self) -> str: ...

    def titles_for(self, sizes: Sizes) -> dict[str, str]: ...

    def measure(self, subject: MeasuredSubject) -> Sequence[Measurement]: ...


def _with_sizes(title: str, sizes: Sizes) -> str:
    return title.format(**{name: f"{value:,}" for name, value in asdict(sizes).items()})
