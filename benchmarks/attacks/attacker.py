"""The process that attacks: `python -m benchmarks.attacks.attacker NAME PORT SECONDS`."""

from __future__ import annotations

import sys

import trio

from benchmarks.attacks.bodies import BODIES
from benchmarks.attacks.definitions import DEFINED
from benchmarks.attacks.lists import LISTS
from benchmarks.attacks.outside import OUTSIDE
from benchmarks.attacks.selectors import SELECTORS
from benchmarks.attacks.target import Target
from benchmarks.attacks.unauthenticated import UNAUTHENTICATED

ATTACKS = {**UNAUTHENTICATED, **BODIES, **LISTS, **SELECTORS, **DEFINED, **OUTSIDE}


def main() -> None:
    name, port, seconds = sys.argv[1:]
    trio.run(ATTACKS[name], Target(int(port), float(seconds)))


if __name__ == "__main__":
    main()
