"""Counts updated as pods change equal counts over all pods."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from rewound.actors.messages import Object
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.replicasets import Members
from tests.actors.workloads.test_pods_to_delete import NOW, pod
from tests.at_once import at_once

SELECTOR: Object = {"matchLabels": {"app": "web"}}
LABELS = {"app": "web", "tier": "front"}


def members_of(pods: Iterable[Object]) -> Members:
    members = Members(SELECTOR, LABELS)
    for one in pods:
        members.replace(key_of(one), one)
    return members


def counts(members: Members) -> tuple[object, ...]:
    waiting = at_once(members.available(30, NOW))
    return members.active, members.labelled, members.ready, waiting, sorted(members.unmatched)


def any_pod(random: Random, name: str) -> Object:
    ready = random.choice([None, 1, 29, 30, 31, 500])
    found = pod(name, phase=random.choice(["Pending", "Running", "Failed"]), ready=ready)
    found["metadata"]["labels"] = {"app": random.choice(["web", "web", "other"]), "tier": "front"}
    if random.random() < 0.3:
        del found["metadata"]["labels"]["tier"]
    if random.random() < 0.2:
        found["metadata"]["deletionTimestamp"] = found["metadata"]["creationTimestamp"]
    return found


def test_random_changes_are_counted() -> None:
    random = Random(1)
    pods: dict[Key, Object] = {}
    members = members_of(())
    for _ in range(500):
        new = any_pod(random, f"p{random.randrange(12)}")
        if random.random() < 0.3:
            pods.pop(key_of(new), None)
            members.replace(key_of(new), None)
        else:
            pods[key_of(new)] = new
            members.replace(key_of(new), new)
        assert counts(members) == counts(members_of(pods.values()))


def test_pods_are_available_after_their_time_and_not_at_it() -> None:
    pods = [pod("a", ready=29), pod("b", ready=30), pod("c", ready=31)]
    for one in pods:
        one["metadata"]["labels"] = LABELS
    members = members_of(pods)
    assert at_once(members.available(0, NOW)) == (3, None)
    available, next_one = at_once(members.available(30, NOW))
    assert available == 1 and next_one is not None and 0 < next_one < 0.001
    assert at_once(members.available(30, NOW + 1))[0] == 2
