"""NamedTuple that compiles no code when a class is defined; used like that of the standard library.

`typing.NamedTuple` compiles every annotation and a constructor, which took a twentieth of a server's start. Here the
first instance compiles the constructor, and annotations stay text.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]  # reads an element; a property takes twice the time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _NamedTupleType(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            others = tuple(base for base in bases if type(base) is not _NamedTupleType)
            return _make(name, others, namespace)

    class NamedTuple(metaclass=_NamedTupleType):
        """Use like that of the module `typing`."""


class _Named(tuple[Any, ...]):
    """What all named tuples have."""

    __slots__ = ()
    _fields: tuple[str, ...]

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Self:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({shown})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


def _make(name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    fields = tuple(namespace.get("__annotations__", {}))
    defaults = {field: namespace.pop(field) for field in fields if field in namespace}
    for index, field in enumerate(fields):
        namespace[field] = _tuplegetter(index, f"Alias for field number {index}")
    namespace.update(__slots__=(), _fields=fields, _field_defaults=defaults, __match_args__=fields)
    made = type(name, (_Named, *bases), namespace)
    made.__new__ = _uncompiled(made, fields, defaults)  # type: ignore[method-assign]
    return made


def _uncompiled(cls: Any, fields: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., Any]:
    """The constructor until its first call, which compiles it."""

    def __new__(asked: Any, /, *positional: Any, **named: Any) -> Any:
        values: dict[str, Any] = {f"_default_{name}": value for name, value in defaults.items()}
        values["_new"] = tuple.__new__
        parameters = ", ".join(f"{name}=_default_{name}" if name in defaults else name for name in fields)
        elements = "".join(f"{name}, " for name in fields)
        exec(f"def __new__(_cls, {parameters}):\n return _new(_cls, ({elements}))", values)
        compiled = values.pop("__new__")
        compiled.__qualname__ = f"{cls.__name__}.__new__"
        compiled.__module__ = cls.__module__
        cls.__new__ = staticmethod(compiled)
        return compiled(asked, *positional, **named)

    return staticmethod(__new__)
