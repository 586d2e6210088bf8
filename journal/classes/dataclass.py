"""The decorator of all our dataclasses, which compiles no code when a class is defined.

The decorator of the standard library compiles five or six methods per class, which took a third of a server's start:
about a millisecond for each of 220 classes. Here the first call of `__init__`, `__eq__` and `__hash__` compiles them,
and the other methods are closures over the names of the fields. The `__init__` of a frozen class with slots sets them
by their descriptors, which takes half the time of `object.__setattr__`. The classes have what the functions of the
standard module need: `field`, `fields`, `replace`, `asdict` and `is_dataclass` work as usual.

Missing: `order`, `unsafe_hash`, `InitVar` and `KW_ONLY`, which nobody here needs; and `inspect.signature` of a class
does not show its fields before the first instance.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from types import MemberDescriptorType, SimpleNamespace
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
# By this mark, `dataclasses.fields` and `replace` know a field from a ClassVar.
_FIELD: Final = dataclasses._FIELD  # type: ignore[attr-defined]


def _make(
    cls: Any,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    slots: bool = False,
    weakref_slot: bool = False,
    kw_only: bool = False,
) -> type:
    keep = _METHODS.intersection(cls.__dict__)
    if "__eq__" in keep and cls.__dict__["__hash__"] is None:
        keep = keep - {"__hash__"}  # Python has set it because of `__eq__`
    own = [_own_field(cls, *one, kw_only) for one in _own_annotations(cls)]
    found: dict[str, Field[Any]] = {**_inherited(cls), **{one.name: one for one in own}}
    made = _with_slots(cls, found, weakref_slot) if slots else _with_defaults(cls, own)
    made.__dataclass_fields__ = found
    made.__dataclass_params__ = SimpleNamespace(
        init=True, repr=repr, eq=eq, order=False, unsafe_hash=False, frozen=frozen
    )
    if "__match_args__" not in made.__dict__:
        matched = tuple(one.name for one in found.values() if one.init and not one.kw_only)
        setattr(made, "__match_args__", matched)  # noqa: B010 - mypy refuses an assignment
    methods: dict[str, Any] = {"__init__": _uncompiled(made, "__init__", partial(_init_source, made, frozen))}
    if repr:
        methods["__repr__"] = _repr(tuple(one.name for one in found.values() if one.repr))
    if eq:
        names = tuple(one.name for one in found.values() if one.compare)
        methods["__eq__"] = _uncompiled(made, "__eq__", partial(_eq_source, names))
        methods["__hash__"] = _uncompiled(made, "__hash__", partial(_hash_source, names)) if frozen else None
    if frozen:
        methods.update(_frozen(made, frozenset(found)))
    for name, method in methods.items():
        if name not in keep:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _own_annotations(cls: type) -> Iterator[tuple[str, Any]]:
    """Name and annotation of the fields that the class itself declares; annotations are strings."""
    for name, annotation in inspect.get_annotations(cls).items():
        if not str(annotation).removeprefix("typing.").startswith("ClassVar"):
            yield name, annotation


def _own_field(cls: type, name: str, annotation: Any, kw_only: bool) -> Field[Any]:
    given = getattr(cls, name, MISSING)
    if isinstance(given, Field):
        one = given
    elif given is MISSING or isinstance(given, MemberDescriptorType):  # the latter: a slot of a base class
        one = dataclasses.field()
    else:
        one = dataclasses.field(default=given)
    if one.default.__class__.__hash__ is None:
        raise ValueError(
            f"mutable default {type(one.default)} for field {name} is not allowed: use default_factory"
        )
    if one.kw_only is MISSING:
        one.kw_only = kw_only
    one.name, one.type = name, annotation
    one._field_type = _FIELD  # type: ignore[attr-defined]
    return one


def _inherited(cls: type) -> dict[str, Field[Any]]:
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        found.update(base.__dict__.get("__dataclass_fields__", {}))
    return found


def _with_defaults(cls: Any, own: list[Field[Any]]) -> Any:
    """The class with the defaults of its fields as attributes, in place of what `field` returned."""
    for one in own:
        if one.default is not MISSING:
            setattr(cls, one.name, one.default)
        elif one.name in cls.__dict__:
            delattr(cls, one.name)
    return cls


def _with_slots(cls: type, found: dict[str, Field[Any]], weakref_slot: bool) -> Any:
    """The class made anew: slots cannot be added to one."""
    taken = {name for base in cls.__mro__[1:-1] for name in _slots(base)}
    wanted = (*found, "__weakref__") if weakref_slot else tuple(found)
    left_out = {*found, "__dict__", "__weakref__"}
    namespace = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    namespace["__slots__"] = tuple(name for name in wanted if name not in taken)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _slots(base: type) -> tuple[str, ...]:
    given = base.__dict__.get("__slots__", ())
    return (given,) if isinstance(given, str) else tuple(given)


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
