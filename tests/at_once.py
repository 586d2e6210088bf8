"""Runs work that normally yields to the event loop, without yielding."""

from __future__ import annotations

from typing import TypeVar

from rewound.actors.runtime.steps import Steps

T = TypeVar("T")


def at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
