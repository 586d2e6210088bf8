"""Lets trio find its instruments at the cost of a dictionary lookup.

trio asks at every scheduling step and every poll whether anybody instruments it: five times for a get, 23 times for a
create. Its table is a `UserDict`, whose `in` is a Python function. `quick_instruments` puts a built-in dictionary with
the same methods in its place, and calls the hooks of instruments without another lookup; that saves more than the
watchdog of the event loop costs. The table is private to trio: where it does not look as expected, nothing changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio

logger = logging.getLogger(__name__)

_HOOKS = tuple(name for name in vars(trio.abc.Instrument) if not name.startswith("_"))


class QuickInstruments(dict[str, tuple[Callable[..., None], ...]]):
    """The hooks of all instruments by name; a name without hooks is absent."""

    def __init__(self) -> None:
        super().__init__()
        self._instruments: list[trio.abc.Instrument] = []

    def add_instrument(self, instrument: trio.abc.Instrument) -> None:
        if instrument not in self._instruments:
            self._instruments.append(instrument)
            self._refresh()

    def remove_instrument(self, instrument: trio.abc.Instrument) -> None:
        if instrument not in self._instruments:
            raise KeyError(instrument)
        self._instruments.remove(instrument)
        self._refresh()

    def call(self, hook: str, *arguments: object) -> None:
        for call in self[hook]:
            try:
                call(*arguments)
            except Exception:
                instrument = call.__self__  # type: ignore[attr-defined]
                self.remove_instrument(instrument)
                logger.exception("%s of %r failed; it is called no more", hook, instrument)

    def _refresh(self) -> None:
        self.clear()
        for hook in _HOOKS:
            calls = tuple(
                getattr(one, hook)
                for one in self._instruments
                if getattr(type(one), hook, None) is not getattr(trio.abc.Instrument, hook)
            )
            if calls:
                self[hook] = calls


@contextmanager
def quick_instruments() -> Iterator[bool]:
    """Replace the table of the running loop; False, and nothing done, where trio has another one than expected."""
    try:
        runner: Any = trio._core._run.GLOBAL_RUN_CONTEXT.runner
        original = runner.instruments
        instruments = list(original.data["_all"])
    except (AttributeError, KeyError):
        yield False
        return
    quick = runner.instruments = QuickInstruments()
    for one in instruments:
        quick.add_instrument(one)
    try:
        yield True
    finally:
        runner.instruments = original
