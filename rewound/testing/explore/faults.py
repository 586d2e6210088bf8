"""The faults that the explorer injects into one run, and their text form.

A run without faults lets each controller go on until it waits for events. A fault happens `after` that many requests
and events since the fault before it, or as soon afterwards as it can: a watch is held back once there is one. A run is
defined by its list of faults, so Hypothesis shortens it by leaving some out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

TURN, CRASH, LOST, LAG, RECONNECT, STALE, TIME = (
    "turn",
    "crash",
    "lost",
    "lag",
    "reconnect",
    "stale",
    "time",
)
# Hypothesis prefers earlier ones: what is easiest to understand comes first.
KINDS: Final = {
    TURN: "another controller goes first",
    CRASH: "a controller crashes before or after a request, and starts again",
    LOST: "a request or its reply is lost",
    LAG: "the events of a watch arrive later",
    RECONNECT: "a watch ends; the next one may begin with events that the controller knows",
    STALE: "a list with resourceVersion=0 is older than the newest state",
    TIME: "time passes",
}
_SHORTEST_GAP: Final = 3  # bits: up to seven requests and events between two faults
_LATER: Final = 12  # requests and events: how much later a neighbour is tried
SECONDS: Final = (1, 10, 60, 600, 3600)


def with_one_fewer(faults: Sequence[Fault]) -> Iterator[list[Fault]]:
    """The lists without one of the faults, also with a neighbour that happens later.

    Hypothesis leaves faults out too, but then the next fault happens earlier; it does not try both changes at once.
    """
    for index in range(len(faults)):
        rest = [*faults[:index], *faults[index + 1 :]]
        for neighbour in {max(index - 1, 0), min(index, len(rest) - 1)} if rest else ():
            for later in range(1, _LATER + 1):
                one = rest[neighbour]
                moved = Fault(one.after + later, one.kind, one.number)
                yield [*rest[:neighbour], moved, *rest[neighbour + 1 :]]


class BadFault(ValueError):
    """A fault is invalid; the text names it and says what is wrong."""


@dataclass(frozen=True, slots=True)
class Fault:
    after: int  # requests and events between the fault before and this one
    kind: str
    number: int  # which watch, how long, how old: see `run`

    def __str__(self) -> str:
        return f"{self.after}:{self.kind}:{self.number}"


def fault_lists(kinds: Collection[str], most: int, operations: int) -> Any:
    """A Hypothesis strategy for lists of faults. `operations` is how many a run without faults has.

    It draws bits, because Hypothesis also takes numbers from the source of imported modules: the same seed would give
    different faults in another process.
    """
    from hypothesis import strategies

    ordered = [kind for kind in KINDS if kind in kinds]
    if not ordered or not most:
        return strategies.just([])
    bit = strategies.booleans()
    gap = max(_SHORTEST_GAP, (operations // 4).bit_length())

    def make(bits: tuple[bool, ...]) -> Fault:
        kind, number = bits[gap : gap + 4], bits[gap + 4 :]
        return Fault(_number(bits[:gap]), ordered[_number(kind) % len(ordered)], _number(number))

    return strategies.lists(strategies.tuples(*[bit] * (gap + 8)).map(make), max_size=most)


def _number(bits: tuple[bool, ...]) -> int:
    return sum(one << index for index, one in enumerate(reversed(bits)))


def check_kinds(kinds: Collection[str]) -> None:
    """Raises BadFault if a kind of fault does not exist."""
    for kind in kinds:
        if kind not in KINDS:
            raise BadFault(f"faults: {kind!r} is none; there are {', '.join(KINDS)}")


def parse_faults(text: str) -> list[Fault]:
    """Parse faults in the form of `str(fault)`, separated by spaces. Raises BadFault."""
    return [_parsed(one) for one in text.split()]


def _parsed(text: str) -> Fault:
    after, _, rest = text.partition(":")
    kind, _, number = rest.partition(":")
    if kind not in KINDS or not after.isdecimal() or not number.isdecimal():
        raise BadFault(f"repeat: {text!r} is not a fault; copy the text that the failing run has printed")
    return Fault(int(after), kind, int(number))
