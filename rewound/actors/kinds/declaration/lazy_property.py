"""A cached property without a lock.

`functools.cached_property` of Python 3.11 has one lock for all instances of a class: while a worker thread computes a
slow value, the event loop would have to wait to read the same property of another instance. Here two threads may
compute a value at the same time, and one of the two equal results stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["lazy_property"]

if TYPE_CHECKING:
    from functools import cached_property as lazy_property
else:

    class lazy_property:
        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self._name = compute.__name__
            self.__doc__ = compute.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            found = self._compute(instance)
            return instance.__dict__.setdefault(self._name, found)
