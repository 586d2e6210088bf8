"""Work in steps pauses often enough, even where single items take long."""

from __future__ import annotations

from time import perf_counter

from rewound.actors.runtime.steps import Steps, chosen


def takes_a_millisecond(number: int) -> bool:
    end = perf_counter() + 0.001
    while perf_counter() < end:
        pass
    return number % 2 == 0


def test_choosing_pauses_after_each_item_that_takes_long() -> None:
    found: list[int] = []

    def steps() -> Steps[None]:
        found.extend((yield from chosen(range(10), takes_a_millisecond)))

    assert len(list(steps())) == 10
    assert found == [0, 2, 4, 6, 8]
