"""Turns SIGTERM into an exception, so that an interrupted command removes its temporary files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Without this, SIGTERM would end the process at once and leave a temporary folder or file."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
