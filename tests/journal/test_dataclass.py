"""Our decorator for dataclasses behaves like that of the standard library, and compiles methods on first use only."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from journal.classes.dataclass import dataclass


def _classes(dataclass: Callable[..., Any]) -> dict[str, Any]:
    @dataclass(frozen=True, slots=True)
    class Frozen:
        number: int
        items: list[int] = field(default_factory=list)
        text: str = field(default="x", repr=False)
        seen: bool = field(default=False, compare=False)
        constant: ClassVar[int] = 7

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Frozen):
        """With a docstring."""

        more: int
        late: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "late", self.number + self.more)

    @dataclass
    class Plain:
        number: int
        computed: int = field(default=3, init=False)
        lists: list[int] = field(default_factory=list, init=False)

    @dataclass(slots=True, eq=False, repr=False)
    class Bare:
        number: int = 1

    @dataclass(frozen=True)
    class WithDict:
        number: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, WithDict)

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    found = (Frozen, Derived, Plain, Bare, WithDict, Empty)
    return {cls.__name__: cls for cls in found}


OURS = _classes(dataclass)
STANDARD = _classes(dataclasses.dataclass)


@dataclass(frozen=True, slots=True)
class Importable:
    """Of this module: pickle finds it."""

    number: int
    text: str = ""


def _made(classes: dict[str, Any]) -> list[Any]:
    return [
        classes["Frozen"](1),
        classes["Frozen"](1, [2], "y", seen=True),
        classes["Derived"](1, more=2),
        classes["Plain"](number=4),
        classes["WithDict"](5),
        classes["Empty"](),
    ]


def _outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


def test_representation_fields_and_documents_are_those_of_the_standard_decorator() -> None:
    for ours, standard in zip(_made(OURS), _made(STANDARD), strict=True):
        assert repr(ours) == repr(standard)
        assert asdict(ours) == asdict(standard)
        assert [one.name for one in fields(ours)] == [one.name for one in fields(standard)]
        assert type(ours).__match_args__ == type(standard).__match_args__
        assert hasattr(ours, "__dict__") == hasattr(standard, "__dict__")


def test_equal_instances_are_those_of_the_standard_decorator() -> None:
    ours, standard = _made(OURS) + _made(OURS), _made(STANDARD) + _made(STANDARD)
    for one, same in zip(ours, standard, strict=True):
        assert [one == other for other in ours] == [same == other for other in standard]
    assert OURS["Bare"]() != OURS["Bare"]()
    assert OURS["Frozen"](1) != OURS["Derived"](1, more=2)


def test_hashes_exist_where_the_standard_decorator_makes_them() -> None:
    @dataclass(frozen=True, slots=True)
    class Key:
        a: int
        b: str = "b"

    assert {Key(1): "found"}[Key(1, "b")] == "found"
    for name, ours in OURS.items():
        assert (ours.__hash__ is None) == (STANDARD[name].__hash__ is None), name
    assert OURS["Bare"].__hash__ is object.__hash__


@pytest.mark.parametrize(
    "act",
    [
        lambda classes: classes["Frozen"](),
        lambda classes: classes["Frozen"](1, unknown=2),
        lambda classes: classes["Derived"](1, [], "", True, 5),
        lambda classes: classes["Plain"](1, 2),
        lambda classes: setattr(classes["Frozen"](1), "number", 2),
        lambda classes: setattr(classes["WithDict"](1), "other", 2),
        lambda classes: delattr(classes["Frozen"](1), "number"),
        lambda classes: replace(classes["Plain"](1), computed=5),
        lambda classes: replace(classes["Frozen"](1, [3]), number=2).items,
    ],
)
def test_mistakes_are_reported_as_by_the_standard_decorator(act: Callable[[dict[str, Any]], object]) -> None:
    assert _outcome(lambda: act(OURS)) == _outcome(lambda: act(STANDARD))


def test_default_factories_make_a_value_for_every_instance() -> None:
    assert OURS["Frozen"](1).items is not OURS["Frozen"](1).items
    assert OURS["Plain"](1).lists is not OURS["Plain"](1).lists


def test_frozen_instances_can_be_copied_and_pickled() -> None:
    one = Importable(1, "a")
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


def test_subclass_that_is_no_dataclass_has_attributes_of_its_own() -> None:
    class Sub(Importable):
        pass

    one: Any = Sub(1)
    one.other = 2
    assert one.other == 2
    with pytest.raises(FrozenInstanceError):
        one.number = 2


def test_methods_are_compiled_by_their_first_call() -> None:
    cls = _classes(dataclass)["Frozen"]
    before = [cls.__dict__[name] for name in ("__init__", "__eq__", "__hash__")]
    assert cls(1, text="a") == cls(1, text="a")
    init, eq, hash_ = (cls.__dict__[name] for name in ("__init__", "__eq__", "__hash__"))
    assert init is not before[0] and eq is not before[1] and hash_ is before[2]
    assert init.__code__.co_varnames == ("self", "number", "items", "text", "seen")


def test_standard_dataclass_can_inherit_from_ours() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Sub(Importable):
        more: int = 3

    assert repr(Sub(1)).endswith("Sub(number=1, text='', more=3)")
    assert replace(Sub(1), more=4) == Sub(1, more=4) != Sub(1)


def test_mutable_defaults_are_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @dataclass
        class Shared:
            items: list[int] = []  # noqa: RUF012
