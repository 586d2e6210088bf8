"""The decorator of all our dataclasses: the standard one, without the code that it compiles for every class.

The standard decorator compiles five or six methods per class, which took a third of a server's start: about a
millisecond for each of 220 classes. Here the first call of `__init__`, `__eq__` and `__hash__` compiles them, and the
other methods are closures over the names of the fields. Fields, slots and matching are the standard decorator's, so
`fields`, `replace`, `asdict` and `match` work as usual. The `__init__` of a frozen class with slots sets them by their
descriptors, which takes half the time of `object.__setattr__`.

Missing: `order`, `unsafe_hash` and `InitVar`, which nobody here needs; and `inspect.signature` of a class does not show
its fields before the first instance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Use like the decorator of the standard library."""
        if cls is not None:
            return _make(cls)
        return lambda cls: _make(cls, **options)


_METHODS: Final = frozenset({"__init__", "__repr__", "__eq__", "__hash__"})


def _make(
    cls: type,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    **layout: bool,  # slots, weakref_slot, kw_only
) -> type:
    keep = _METHODS.intersection(cls.__dict__)
    if "__eq__" in keep and cls.__dict__["__hash__"] is None:
        keep = keep - {"__hash__"}  # Python has set it because of `__eq__`
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # or the standard decorator writes one, with `inspect.signature`
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, **layout)(cls)
    found = dataclasses.fields(made)
    methods: dict[str, Any] = {"__init__": _uncompiled(made, "__init__", partial(_init_source, made, frozen))}
    if repr:
        methods["__repr__"] = _repr(tuple(one.name for one in found if one.repr))
    if eq:
        names = tuple(one.name for one in found if one.compare)
        methods["__eq__"] = _uncompiled(made, "__eq__", partial(_eq_source, names))
        methods["__hash__"] = _uncompiled(made, "__hash__", partial(_hash_source, names)) if frozen else None
    if frozen:
        methods.update(_frozen(made, frozenset(one.name for one in found)))
    for name, method in methods.items():
        if name not in keep:
            setattr(made, name, method)
    return made


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _frozen(cls: Any, names: frozenset[str]) -> dict[str, Any]:
    """What refuses changes of fields; a subclass that is no dataclass may have further attributes."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {
        "__setattr__": __setattr__,
        "__delattr__": __delattr__,
        "__getstate__": _get_state,
        "__setstate__": _set_state,
    }


def _get_state(instance: Any) -> list[object]:
    return [getattr(instance, one.name) for one in dataclasses.fields(instance)]


def _set_state(instance: Any, state: list[object]) -> None:
    for one, value in zip(dataclasses.fields(instance), state, strict=True):
        object.__setattr__(instance, one.name, value)


def _uncompiled(cls: type, name: str, source: Callable[[], tuple[str, dict[str, Any]]]) -> Callable[..., Any]:
    """The method of this name until its first call, which compiles it."""

    def method(self: Any, *positional: object, **named: object) -> Any:
        text, values = source()
        exec(text, values)
        compiled = values.pop(name)
        compiled.__qualname__ = f"{cls.__qualname__}.{name}"
        compiled.__module__ = cls.__module__
        if cls.__dict__[name] is method:
            setattr(cls, name, compiled)
        return compiled(self, *positional, **named)

    return method


def _eq_source(names: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    own, others = (_tuple_source(of, names) for of in ("self", "other"))
    condition = "other.__class__ is self.__class__"
    text = f"def __eq__(self, other):\n return {own} == {others} if {condition} else NotImplemented"
    return text, {}


def _hash_source(names: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    return f"def __hash__(self):\n return hash({_tuple_source('self', names)})", {}


def _tuple_source(of: str, names: tuple[str, ...]) -> str:
    return "(" + "".join(f"{of}.{name}," for name in names) + ")"


class _Source:
    """The source of an `__init__` and the values that it refers to."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen
        self.values: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
        self.parameters: list[str] = []
        self.named_parameters: list[str] = []
        self.lines: list[str] = []

    def add(self, field: Field[Any]) -> None:
        name, parameter, value = field.name, field.name, field.name
        if field.default_factory is not MISSING:
            self.values[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}" if field.init else f"_make_{name}()"
        elif field.default is not MISSING:
            self.values[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            return
        if field.init:
            (self.named_parameters if field.kw_only else self.parameters).append(parameter)
        self.lines.append(self._assignment(name, value))

    def _assignment(self, name: str, value: str) -> str:
        if not self._frozen:
            return f"self.{name} = {value}"
        descriptor = getattr(self._cls, name, None)
        if type(descriptor) is not MemberDescriptorType:
            return f"_set(self, {name!r}, {value})"
        self.values[f"_set_{name}"] = descriptor.__set__
        return f"_set_{name}(self, {value})"


def _init_source(cls: type, frozen: bool) -> tuple[str, dict[str, Any]]:
    source = _Source(cls, frozen)
    for field in dataclasses.fields(cls):
        source.add(field)
    if hasattr(cls, "__post_init__"):
        source.lines.append("self.__post_init__()")
    named = ["*", *source.named_parameters] if source.named_parameters else []
    parameters = ", ".join(["self", *source.parameters, *named])
    body = "\n ".join(source.lines or ["pass"])
    return f"def __init__({parameters}):\n {body}", source.values
