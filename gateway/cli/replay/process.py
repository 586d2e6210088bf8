"""A replay as a process: the signals that end it, and the errors that a person can fix."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import trio

from gateway.cli.failures import explain
from gateway.settings.checks import SettingsError
from gateway.settings.settings import Settings
from journal.errors import JournalError


def run_process(main: Callable[[], Any], settings: Settings) -> int:
    try:
        trio.run(main)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        single = _single(error)
        if isinstance(single, SettingsError | JournalError):
            raise single from None
        explanation = explain(error, settings)
        if explanation is None:
            raise single from None
        raise SettingsError(*explanation.partition(": ")[::2]) from None
    return 0


def _single(error: BaseException) -> BaseException:
    """The only error in groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop.set()
