"""Our NamedTuple behaves like that of the standard library, and compiles its constructor with the first instance."""

from __future__ import annotations

import copy
import pickle
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest

from journal.classes.named_tuple import NamedTuple

T = TypeVar("T")


def _made(NamedTuple: Any) -> Any:
    class Point(NamedTuple):
        """A point."""

        x: int
        y: int = 2
        label: str = ""

        @property
        def total(self) -> int:
            return int(self.x + self.y)

        def __str__(self) -> str:
            return f"<{self.x}, {self.y}>"

    return Point


OURS = _made(NamedTuple)
STANDARD = _made(typing.NamedTuple)


class Importable(NamedTuple):
    number: int
    text: str = ""


class Held(NamedTuple, Generic[T]):
    value: T


def _outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "act",
    [
        lambda Point: repr(Point(1, label="a")),
        lambda Point: str(Point(1)),
        lambda Point: tuple(Point(1, 5)),
        lambda Point: Point(3).total,
        lambda Point: Point(3)._replace(y=4)._asdict(),
        lambda Point: Point(3)._replace(z=4),
        lambda Point: Point._make([1, 2, "c"])._asdict(),
        lambda Point: Point._make([1]),
        lambda Point: (Point._fields, Point._field_defaults, Point.__match_args__, Point.__doc__),
        lambda Point: (Point(1) == Point(1, 2), Point(1) == (1, 2, ""), hash(Point(1)), Point(1) < Point(2)),
        lambda Point: Point(),
        lambda Point: Point(1, 2, "", 4),
        lambda Point: Point(1, unknown=2),
        lambda Point: hasattr(Point(1), "__dict__"),
    ],
)
def test_behaves_like_that_of_the_standard_library(act: Callable[[Any], object]) -> None:
    assert _outcome(lambda: act(OURS)) == _outcome(lambda: act(STANDARD))


def test_fields_cannot_be_assigned() -> None:
    one: Any = Importable(1)
    with pytest.raises(AttributeError):
        one.number = 2
    with pytest.raises(AttributeError):
        one.other = 2


def test_instances_can_be_copied_and_pickled() -> None:
    one = Importable(1, "a")
    assert copy.copy(one) == pickle.loads(pickle.dumps(one)) == one
    assert type(pickle.loads(pickle.dumps(one))) is Importable


def test_named_tuples_can_be_generic() -> None:
    assert Held[int](3).value == Held("a")._replace(value=3).value == 3


def test_first_instance_compiles_the_constructor() -> None:
    cls = _made(NamedTuple)
    before = cls.__new__
    assert cls(1) == cls(x=1)
    assert cls.__new__ is not before
    assert cls.__new__.__code__.co_varnames == ("_cls", "x", "y", "label")
