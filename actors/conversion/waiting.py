"""Runs synchronous work that needs objects in other versions: again after each conversion, until it has all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from actors.errors import ConversionFailed
from actors.go_json import dumps
from actors.kinds.declaration.definition import ConversionNeeded, Conversions, Versions

# More than any work needs that asks for the same conversions each time.
MAX_CONVERSIONS: Final = 64

T = TypeVar("T")
Run = Callable[[Callable[[], T]], Awaitable[T]]


class Converts(Protocol):
    async def convert(self, versions: Versions, documents: list[bytes], target: str) -> list[bytes]:
        """ConversionFailed."""


async def converted(converter: Converts, needed: ConversionNeeded) -> bytes:
    document = dumps({"apiVersion": needed.source, **needed.object})
    [result] = await converter.convert(needed.versions, [document], needed.target)
    return result


async def run_converting(converter: Converts, work: Callable[[], T], run: Run[T]) -> T:
    """What `work` returns. `run` calls it, perhaps in a thread. ConversionFailed."""
    known = Conversions()

    def work_with_conversions() -> T:
        with known.in_use():
            return work()

    while len(known) < MAX_CONVERSIONS:
        try:
            return await run(work_with_conversions)
        except ConversionNeeded as needed:
            known.add(needed, await converted(converter, needed))
    raise ConversionFailed("the object needs too many conversions")
