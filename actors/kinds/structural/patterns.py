"""The patterns of schemas, compiled once for all schemas that have them.

A pattern that does not compile is refused with the definition, so that compiled schemas have none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from actors.cel.library.go_regexp import compile_re2, is_large, may_take_long
from actors.kinds.structural.node import Node

# Different patterns of one definition, of which each may take some memory with hostile texts.
MOST_PATTERNS: Final = 2000
_LONGEST: Final = 8192  # a millisecond for most patterns
_LONGEST_OF_LARGE: Final = 256  # two milliseconds
_WEIGHT_OF_LARGE: Final = 64  # one such takes as much as so many others


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, whose `search(text)` is truthy where a part of the text matches. InvalidExpression."""
    return compile_re2(pattern)


def longest_at_once(compiled: Any) -> int:
    """The longest text, in characters, that the event loop may search; longer ones need a worker thread."""
    return _LONGEST_OF_LARGE if is_large(compiled) else _LONGEST


def has_slow_pattern(node: Node) -> bool:
    """Whether a pattern of a node, or of the nodes that are compiled with it, may take long to compile."""
    if node.format == "hostname" or (node.pattern and may_take_long(node.pattern)):
        return True
    with_it = (node.items, node.values, node.not_, *node.all_of, *node.any_of, *node.one_of)
    return any(has_slow_pattern(one) for one in with_it if one is not None)


def weight_of(compiled: Any) -> int:
    """What a pattern counts for, of MOST_PATTERNS."""
    return _WEIGHT_OF_LARGE if is_large(compiled) else 1
