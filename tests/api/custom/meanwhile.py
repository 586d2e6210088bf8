"""Checks that other requests are served while the server works on something large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import trio

from rewound.actors.runtime import large_work
from rewound.actors.runtime.time_limit import run_limited
from tests.api.custom.loop_steps import FEW_CALLS, LoopSteps, counted_steps
from tests.gateway.api import Api

T = TypeVar("T")


@dataclass
class Meanwhile:
    steps: LoopSteps
    statuses: list[int] = field(
        default_factory=list
    )  # of requests that were sent while large work was waiting

    def check(self, *, in_thread: bool = True) -> None:
        """Nothing blocked the event loop, and other requests were served while the worker thread was busy."""
        assert self.steps.most < FEW_CALLS, self.steps.longest
        assert set(self.statuses) == ({200} if in_thread else set())


@contextmanager
def meanwhile(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Meanwhile]:
    """Make every large job wait in its thread until another request has got its response."""

    async def other() -> None:
        found.statuses.append((await api.ask("GET", "/version")).status)

    def run(work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        trio.from_thread.run(other)
        return run_limited(work, *arguments, **options)

    with monkeypatch.context() as patched, counted_steps() as steps:
        found = Meanwhile(steps)
        patched.setattr(large_work, "run_limited", run)
        yield found
