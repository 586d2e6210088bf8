"""The process that attacks: `python -m benchmarks.attacks.attacker NAME PORT SECONDS HOSTILE_PORT SECURE_PORT`.

It prints a line when it is prepared, and then attacks.
"""

from __future__ import annotations

import sys

import trio

from benchmarks.attacks.bodies import WRITERS
from benchmarks.attacks.definitions import DEFINERS
from benchmarks.attacks.history import HISTORY
from benchmarks.attacks.lists import READERS
from benchmarks.attacks.neighbours import NEIGHBOURS
from benchmarks.attacks.outside import USERS_OUTSIDE
from benchmarks.attacks.policies import POLICY_WRITERS
from benchmarks.attacks.selectors import WATCHERS
from benchmarks.attacks.target import Attack, Target
from benchmarks.attacks.unauthenticated import ANYBODY
from benchmarks.attacks.webhooks import WEBHOOKS
from benchmarks.attacks.workloads import CONTROLLED

ATTACKS: dict[str, Attack] = {
    **ANYBODY,
    **WRITERS,
    **READERS,
    **WATCHERS,
    **DEFINERS,
    **USERS_OUTSIDE,
    **WEBHOOKS,
    **POLICY_WRITERS,
    **HISTORY,
    **CONTROLLED,
    **NEIGHBOURS,
}


async def _attack(attack: Attack, target: Target) -> None:
    if attack.prepare is not None:
        await attack.prepare(target)
    print("prepared", flush=True)
    await attack.run(target)


def main() -> None:
    name, port, seconds, hostile_port, secure_port = sys.argv[1:]
    target = Target(int(port), float(seconds), int(hostile_port), int(secure_port))
    trio.run(_attack, ATTACKS[name], target)


if __name__ == "__main__":
    main()
