"""Selectors of devices that take long are evaluated in a thread, and once for each version of a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.steps import Steps
from rewound.actors.scheduler.device_selectors import DeviceSelectors, DeviceVersion, SelectorError
from rewound.actors.scheduler.evaluation import finished
from rewound.actors.versions.features import NEWEST, choose_release

NUMBERS = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29]"
SLOW = (
    f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x + y + z >= 0))) && device.attributes['d'].size > 1"
)


class Gpu(NamedTuple):
    size: int
    version: DeviceVersion
    driver: str = "d"

    @property
    def device(self) -> dict[str, Any]:
        return {"name": "gpu", "attributes": {"size": {"int": self.size}}}


class Counting:
    """Selectors that count how often a thread has to work for them."""

    def __init__(self) -> None:
        self.selectors = DeviceSelectors(KUBERNETES, choose_release(NEWEST).features)
        self.worked = 0

    def match(self, expression: str, device: Gpu) -> bool:
        steps: Steps[bool] = self.selectors.match(expression, device)
        return finished(steps, self._work)

    def _work(self) -> None:
        self.worked += 1
        self.selectors.work_here()


def test_short_selector_needs_no_thread() -> None:
    counting = Counting()
    assert counting.match("device.attributes['d'].size > 1", Gpu(2, ("s", "1", 0)))
    assert counting.worked == 0


def test_long_selector_is_evaluated_in_a_thread_once_for_a_version_of_a_device() -> None:
    counting = Counting()
    small, large, changed = Gpu(1, ("s", "1", 0)), Gpu(2, ("s", "1", 1)), Gpu(1, ("s", "2", 1))
    assert [counting.match(SLOW, one) for one in (small, large, changed)] == [False, True, False]
    needed = counting.worked
    assert needed >= 3
    assert [counting.match(SLOW, one) for one in (small, large, changed)] == [False, True, False]
    assert counting.worked == needed


def test_wrong_selector_says_what_is_wrong_each_time() -> None:
    counting = Counting()
    for _ in range(2):
        with pytest.raises(SelectorError, match=r"^runtime error: no such key: weight"):
            counting.match("device.attributes['d'].weight > 1", Gpu(1, ("s", "1", 0)))
        with pytest.raises(SelectorError, match=r"^compile error: "):
            counting.match("device.unknown", Gpu(1, ("s", "1", 0)))
