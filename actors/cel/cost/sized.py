"""An argument of a call, as far as its size is known."""

from __future__ import annotations

from dataclasses import dataclass

from actors.cel.cost.paths import Path
from actors.cel.cost.ranges import Range
from actors.cel.syntax import Node
from actors.cel.types import Type


@dataclass(frozen=True, slots=True)
class Sized:
    node: Node | None
    type: Type
    path: Path | None
    derived: Range | None = None  # what the estimate of the argument itself found
