"""Shuffle sharding: which few of a level's queues a flow may use.

    deal_hand(flow_hash("global-default", "alice"), queues=128, hand_size=6)   -> 6 different queues

Every flow gets a hand of its own, chosen by a hash. A flow that fills all queues of its hand rarely fills all queues
of another flow's hand.
"""

from __future__ import annotations

from bisect import insort
from hashlib import sha256


def flow_hash(schema: str, distinguisher: str) -> int:
    digest = sha256(f"{schema}\0{distinguisher}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def deal_hand(hashed: int, queues: int, hand_size: int) -> tuple[int, ...]:
    """`hand_size` different numbers below `queues`, in the order in which they are dealt."""
    dealt: list[int] = []
    ordered: list[int] = []
    for left in range(queues, queues - hand_size, -1):
        hashed, card = divmod(hashed, left)
        for other in ordered:  # ascending: count only the cards that are left
            if other > card:
                break
            card += 1
        dealt.append(card)
        insort(ordered, card)
    return tuple(dealt)
