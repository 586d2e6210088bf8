"""Pods that many objects select are handled in steps, however many pairs of a pod and an object there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.messages import Object
from rewound.actors.workloads.cache import CachedType, Key, key_of
from rewound.actors.workloads.controller import OwnerFinder


def stored(name: str) -> Object:
    return {"metadata": {"namespace": "default", "name": name}}


@pytest.mark.parametrize(("pods", "owners"), [(64, 500), (1, 5000), (3000, 1), (50, 64), (10, 0)])
async def test_each_step_takes_few_pairs(pods: int, owners: int) -> None:
    first: Counter[Key] = Counter()
    taken: list[tuple[Key, Key]] = []

    def take(pod: Object, selected_by: Sequence[Object]) -> None:
        first[key_of(pod)] += 1
        take_more(pod, selected_by)

    def take_more(pod: Object, selected_by: Sequence[Object]) -> None:
        taken.extend((key_of(pod), key_of(owner)) for owner in selected_by)

    queue: WorkQueue[Key] = WorkQueue()
    everything: Any = None  # `find` gets the objects
    finder = OwnerFinder(queue, cast(CachedType, everything), lambda _: lambda _: True, take, take_more)
    found: list[tuple[Object, list[Object]]] = [(stored(f"pod-{number}"), []) for number in range(pods)]
    before, most = 0, 0
    for _ in finder.find([stored(f"owner-{number}") for number in range(owners)], found):
        most, before = max(most, len(taken) - before), len(taken)
    most = max(most, len(taken) - before)
    assert most <= 256
    assert len(set(taken)) == len(taken) == pods * owners
    assert first == {("default", f"pod-{number}"): 1 for number in range(pods)}
