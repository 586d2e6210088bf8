"""Tests of `cases`: every case runs, and the error names every case that failed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.cases import cases, checking


def test_every_case_runs_once_in_order():
    seen: list[Any] = []

    @cases("a, b", [(1, 2), pytest.param(3, 4, id="three")])
    def run(a: int, b: int) -> None:
        seen.append((a, b))

    run()
    assert seen == [(1, 2), (3, 4)]


def test_one_case_that_failed_raises_its_own_error():
    @cases("text", ["ab", "cd"])
    def run(text: str) -> None:
        assert text == "ab"

    with pytest.raises(AssertionError) as raised:
        run()
    assert raised.value.__notes__ == ["in the case text='cd'"]


def test_all_cases_that_failed_are_named():
    @cases("number", [1, pytest.param(2, id="two"), 3])
    def run(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            1 // (number % 2 - 1)
        if number == 3:
            raise KeyError(number)

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as raised:
        run()
    first, second = raised.value.exceptions
    assert isinstance(first, pytest.fail.Exception) and isinstance(second, KeyError)
    assert [*first.__notes__, *second.__notes__] == ["in the case two: number=2", "in the case number=3"]


def test_cases_can_be_asynchronous():
    @cases("number", [1, 2, 3])
    async def run(number: int) -> None:
        await trio.lowlevel.checkpoint()
        assert number == 2

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed"):
        trio.run(run)


def test_other_parameters_are_fixtures():
    @cases("number", [1, 2])
    @cases("text", "ab")
    def run(number: int, folder: str, text: str) -> None:
        seen.append((number, folder, text))

    seen: list[Any] = []
    assert list(inspect.signature(run).parameters) == ["folder"]
    run(folder="x")
    assert seen == [(1, "x", "a"), (1, "x", "b"), (2, "x", "a"), (2, "x", "b")]


def check(numbers: list[int]) -> None:
    with checking() as case:
        for number in numbers:
            with case(number):
                assert number > 1


def test_checking_runs_every_case_within_one_test():
    check([2, 3])
    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as raised:
        check([0, 1, 2])
    notes = [note for error in raised.value.exceptions for note in error.__notes__]
    assert notes == ["in the case 0", "in the case 1"]
    with pytest.raises(AssertionError, match="without cases"):
        check([])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda test: cases("number", [])(test),
        lambda test: cases("number, text", [(1, "a", 2)])(test),
        lambda test: cases("number", [pytest.param(1, marks=pytest.mark.slow)])(test),
    ],
    ids=["no cases", "other number of values", "marks"],
)
def test_wrong_cases_are_refused(wrong: Callable[[Any], Any]):
    with pytest.raises(AssertionError):
        wrong(lambda number, text: None)
