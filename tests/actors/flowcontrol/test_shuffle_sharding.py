"""Hands of queues: distinct queues, all hands possible, and always the same for one flow."""

from __future__ import annotations

from itertools import permutations

from rewound.actors.flowcontrol.priority_and_fairness import deal_hand, flow_hash


def test_every_hand_is_dealt_equally_often() -> None:
    hands = [deal_hand(hashed, 5, 3) for hashed in range(5 * 4 * 3)]
    assert sorted(hands) == sorted(permutations(range(5), 3))


def test_hand_depends_on_schema_and_distinguisher() -> None:
    flows = [("a", "b"), ("a", "c"), ("ab", ""), ("a", "")]
    hands = {deal_hand(flow_hash(*flow), 128, 6) for flow in flows}
    assert len(hands) == len(flows)
    assert deal_hand(flow_hash("a", "b"), 128, 6) == deal_hand(flow_hash("a", "b"), 128, 6)


def test_hand_may_be_all_queues() -> None:
    assert sorted(deal_hand(flow_hash("a", "b"), 8, 8)) == list(range(8))
    assert deal_hand(flow_hash("a", "b"), 1, 1) == (0,)
