"""A registry without a journal, for what only looks kinds up."""

from __future__ import annotations

from collections.abc import Sequence

from actors.kinds.built_in import built_in
from actors.kinds.registry import Registry
from actors.names import Names


async def without_numbers(_: Sequence[str]) -> None:
    """Nothing is stored, so no type needs a number."""


def registry_of(names: Names) -> Registry:
    return Registry(built_in(names), without_numbers)
