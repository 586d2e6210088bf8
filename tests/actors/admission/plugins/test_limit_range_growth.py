"""Defaults of LimitRanges multiply with the containers of a pod: what they add is bounded before it is made."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.plugins.limit_ranger import LimitRange, check_growth
from rewound.actors.errors import TooLarge
from rewound.actors.runtime.time_limit import NeedsThread, run_limited


def ranges(number: int, names: int) -> tuple[LimitRange, ...]:
    return tuple(
        LimitRange((), {f"example.com/r{at}-{one}": "1" for one in range(names)}, {}) for at in range(number)
    )


def pod(containers: int) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{at}"} for at in range(containers)]}}


def test_few_defaults_are_set_in_the_event_loop() -> None:
    check_growth(pod(5), ranges(2, 10))


def test_many_defaults_are_set_in_a_thread() -> None:
    with pytest.raises(NeedsThread):
        check_growth(pod(50), ranges(4, 100))
    run_limited(check_growth, pod(50), ranges(4, 100))


def test_too_many_defaults_are_refused_with_the_reason() -> None:
    with pytest.raises(TooLarge, match="LimitRanges of the namespace would add 200000 defaults"):
        check_growth(pod(50), ranges(40, 100))
    check_growth(pod(50), ranges(40, 0))
