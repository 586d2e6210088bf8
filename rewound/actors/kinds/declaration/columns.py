"""Table columns of a kind: what `kubectl get` prints, computed from an object. Part of a kind's declaration.

    Table((NAME, Column("Data", "string", "Number of entries.", lambda stored, now: len(stored.get("data", {}))), AGE))

A cell is a pure function of (object in storage form, now in microseconds). A kind without columns gets Name and
Created At. The cell of a path that a user wrote is a search, which takes the Budget of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rewound.actors.kinds.json_path import PathBudget
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.runtime.budget import Budget, OverBudget

Cell = Callable[[Object, int], Any]
SearchedCell = Callable[[Object, int, Budget], Any]
# Processor time of the paths of a row; the cells after it are empty. Rows are made in turns on the event loop.
ROW_SECONDS = 0.004

SECOND = 1_000_000
UNKNOWN, NONE = "<unknown>", "<none>"


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str
    description: str
    cell: Cell
    format: str = ""
    priority: int = 0
    search: SearchedCell | None = None  # instead of `cell`: a path that a user wrote
    since: str = ""  # the versions of Kubernetes that have it
    until: str = ""


def cells_of(columns: Sequence[Column], stored: Object, now: int) -> list[Any]:
    """Return the cells of a row."""
    if not any(column.search for column in columns):
        return [column.cell(stored, now) for column in columns]
    return _searched_cells(columns, stored, now, PathBudget(ROW_SECONDS))


def _searched_cells(columns: Sequence[Column], stored: Object, now: int, budget: Budget) -> list[Any]:
    cells: list[Any] = []
    is_over = False
    for column in columns:
        cell = None
        if column.search is None:
            cell = column.cell(stored, now)
        elif not is_over:
            try:
                cell = column.search(stored, now, budget)
                budget.pause()
            except OverBudget:
                is_over = True
        cells.append(cell)
    return cells


def at(*path: str, missing: Any = "") -> Cell:
    """Return a cell with the value at a path."""

    def cell(stored: Object, _: int) -> Any:
        node: Any = stored
        for name in path:
            if not isinstance(node, dict) or name not in node:
                return missing
            node = node[name]
        return node

    return cell


def size_of(*paths: str) -> Cell:
    """Return a cell with the total number of entries of the maps or lists at these top-level names."""
    return lambda stored, _: sum(len(stored.get(path) or ()) for path in paths)


def since(moment: str | None, now: int) -> str:
    """Return how long ago a time was, for people."""
    if not moment:
        return UNKNOWN
    return human_duration((now - micros_of(moment)) // SECOND)


def human_duration(seconds: int) -> str:
    """Format a duration as kubectl prints ages, with two units where the smaller one matters: 45s, 3m20s, 5h30m,
    2d4h, 3y12d.
    """
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, left = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{left}s" if left else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, left = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{left}m" if left else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, left = divmod(hours, 24)
    if days < 8:
        return f"{days}d{left}h" if left else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    years, left = divmod(days, 365)
    if years < 8:
        return f"{years}y{left}d" if left else f"{years}y"
    return f"{years}y"


def _age(stored: Object, now: int) -> str:
    return since(stored["metadata"].get("creationTimestamp"), now)


NAME = Column(
    "Name", "string", "Name of the object, unique among its kind.", at("metadata", "name"), format="name"
)
AGE = Column("Age", "string", "Time since the object was created.", _age)
CREATED_AT = Column(
    "Created At", "date", "When the object was created.", at("metadata", "creationTimestamp", missing=None)
)
DEFAULT_COLUMNS = (NAME, CREATED_AT)
