"""Measures in new processes: what one alternative loads, caches or frees does not affect the next."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

SPAWN = multiprocessing.get_context("spawn")


def apart(measure: Callable[..., float], *arguments: Any) -> float:
    """Return what `measure(*arguments)` returns in a new process."""
    here, there = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_report, args=(there, measure, arguments))
    process.start()
    there.close()
    figure: float = here.recv()
    process.join()
    return figure


def _report(pipe: Connection, measure: Callable[..., float], arguments: tuple[Any, ...]) -> None:
    pipe.send(measure(*arguments))
