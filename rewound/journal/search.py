"""What a list with a selector looks for. The selector brings the functions: the journal never interprets facts.

Selectors make these values in programs that open no journal, too, so this module imports nothing of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Match = Callable[[bytes, bytes], bool]  # of facts and body
# What a term reads from facts: the bytes of a value, empty if there is none. Equal functions read the same.
ValueOf = Callable[[bytes], bytes]
# Facts with what they lack, from the facts and the body. Equal functions add the same.
Complete = Callable[[bytes, bytes], bytes]


class Term(NamedTuple):
    """Every object that matches has this value."""

    value_of: ValueOf
    value: bytes


class Search(NamedTuple):
    match: Match
    terms: tuple[Term, ...] = ()
    complete: Complete | None = None  # for selectors on fields that facts may lack
