"""Every function that an expression may call, by name."""

from __future__ import annotations

from functools import cache
from typing import Final

from actors.cel.declarations.extensions import EXTENSIONS
from actors.cel.declarations.signatures import Overload, read
from actors.cel.declarations.standard import STANDARD


@cache
def functions(url_type: str) -> dict[str, tuple[Overload, ...]]:
    """`url_type` is the name of the type of URLs. Whoever gets the result does not change it."""
    found: dict[str, tuple[Overload, ...]] = {}
    for overload in (*read(STANDARD, url_type), *read(EXTENSIONS, url_type)):
        found[overload.function] = (*found.get(overload.function, ()), overload)
    return found


# Comparisons of one number type with another. v1.25 leaves them out, see `checker`.
MIXED_COMPARISONS: Final = frozenset(
    overload.id
    for overload in read(STANDARD, "")
    if overload.function in ("_<_", "_<=_", "_>_", "_>=_")
    and overload.parameters[0] != overload.parameters[1]
)
