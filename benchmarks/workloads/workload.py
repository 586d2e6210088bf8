"""A named piece of work: what it is called, what it does in a few words, and how to run it on its ground.

The ground of most is a `Site`, a running server; that of the journal's is an `Archive`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement

Ground = TypeVar("Ground")


class Skipped(Exception):
    """This ground cannot show the figure; the text says why."""


@dataclass(frozen=True, slots=True)
class Workload(Generic[Ground]):
    name: str
    title: str  # with the names of sizes in braces
    run: Callable[[Ground], Measurement]

    def words(self, sizes: Sizes) -> str:
        return self.title.format(**{name: f"{value:,}" for name, value in asdict(sizes).items()})
