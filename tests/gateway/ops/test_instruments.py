"""The quick table of trio's instruments does what trio's own does."""

from __future__ import annotations

import logging

import pytest
import trio

from gateway.ops.instruments import quick_instruments


class Counting(trio.abc.Instrument):
    def __init__(self) -> None:
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1


class Failing(trio.abc.Instrument):
    def before_io_wait(self, timeout: float) -> None:
        raise RuntimeError("broken")


async def test_replaces_the_table_of_the_installed_trio() -> None:
    with quick_instruments() as replaced:
        assert replaced
        assert isinstance(trio._core._run.GLOBAL_RUN_CONTEXT.runner.instruments, dict)
    assert not isinstance(trio._core._run.GLOBAL_RUN_CONTEXT.runner.instruments, dict)


async def test_calls_instruments_until_they_are_removed() -> None:
    earlier, counting = Counting(), Counting()
    trio.lowlevel.add_instrument(earlier)
    with quick_instruments():
        trio.lowlevel.add_instrument(counting)
        trio.lowlevel.add_instrument(counting)  # no effect
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        seen = counting.steps
        trio.lowlevel.remove_instrument(counting)
        await trio.lowlevel.checkpoint()
        with pytest.raises(KeyError):
            trio.lowlevel.remove_instrument(counting)
    trio.lowlevel.remove_instrument(earlier)
    assert seen == counting.steps >= 5
    assert earlier.steps > seen


async def test_a_failing_instrument_is_logged_and_removed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    failing = Failing()
    with quick_instruments():
        trio.lowlevel.add_instrument(failing)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        with pytest.raises(KeyError):
            trio.lowlevel.remove_instrument(failing)
    assert caplog.text.count("before_io_wait of") == 1
