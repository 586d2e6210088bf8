"""Every function that an expression may call: by name for the checker, by overload id for evaluation and costs."""

from __future__ import annotations

from typing import Final

from actors.cel.declarations.extensions import EXTENSIONS
from actors.cel.declarations.signatures import Overload, read
from actors.cel.declarations.standard import STANDARD

_ALL: Final = read(STANDARD) + read(EXTENSIONS)

OVERLOADS: Final[dict[str, Overload]] = {overload.id: overload for overload in _ALL}

FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    name: tuple(overload for overload in _ALL if overload.function == name)
    for name in dict.fromkeys(overload.function for overload in _ALL)
}

# Comparisons of one number type with another. v1.25 leaves them out, see `checker`.
MIXED_COMPARISONS: Final = frozenset(
    overload.id
    for overload in _ALL
    if overload.function in ("_<_", "_<=_", "_>_", "_>=_")
    and overload.parameters[0] != overload.parameters[1]
)
