"""Evaluates the CEL selectors of devices: `device.attributes["gpu.example.com"].memory > 16`.

An attribute or capacity without a domain has that of its driver. A domain that the device has nothing of is an empty
map, so that an expression can ask for it without `in`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from rewound.actors.cel.device_selectors import checked_selector
from rewound.actors.cel.json_data import JsonMap
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.quantities import parse as parse_quantity
from rewound.actors.cel.semver import parse as parse_version
from rewound.actors.cel.values import CannotCompile, EvaluationError, EvaluationStopped, type_name
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.budget import StepBudget

_MOST_PAUSES: Final = 25  # some ten milliseconds
_REMEMBERED: Final = 64  # compiled expressions; a cluster has few different ones


class SelectorError(Exception):
    """An expression cannot be compiled, or fails for a device; the text says which."""


class DeviceSelectors:
    """The compiled expressions of a server."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._names, self._features = names, features
        self._programs: OrderedDict[str, Program] = OrderedDict()

    def match(self, expression: str, device: Any) -> bool:
        """Whether an expression selects a device, given as `device_value`. Raises SelectorError."""
        found = self._program(expression).evaluate((device,), StepBudget(_MOST_PAUSES)).result
        if found.__class__ is bool:
            return bool(found)
        if isinstance(found, EvaluationError | EvaluationStopped):
            raise SelectorError(f"runtime error: {found.message}")
        kind = type_name(found)
        raise SelectorError(
            f"runtime error: CEL result of type {kind} could not be converted to bool: {_conversion_error(kind)}"
        )

    def _program(self, expression: str) -> Program:
        found = self._programs.get(expression)
        if found is not None:
            self._programs.move_to_end(expression)
            return found
        checked = checked_selector(self._names, self._features, expression)
        if isinstance(checked, str):
            raise SelectorError(f"compile error: {checked}")
        try:
            found = self._programs[expression] = compile_program(*checked, ("device",))
        except CannotCompile as wrong:
            raise SelectorError(f"compile error: program instantiation failed: {wrong}") from None
        if len(self._programs) > _REMEMBERED:
            self._programs.popitem(last=False)
        return found


def _conversion_error(kind: str) -> str:
    if kind == "string":
        return "unsupported native conversion from string to 'bool'"
    return f"unsupported type conversion from '{kind}' to bool"


class _Domains(JsonMap):
    """A map of maps, which finds an empty one for every missing key."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        return super().get(key) if self.contains(key) else _EMPTY

    def find(self, key: Any) -> tuple[bool, Any]:
        return True, self.get(key)


_EMPTY: Final = JsonMap({})


def device_value(driver: str, device: Object) -> JsonMap:
    """The variable `device` for a device. Raises SelectorError."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.get("attributes", {}).items():
        domain, bare = _parts(name, driver)
        try:
            attributes.setdefault(domain, {})[bare] = _attribute(attribute)
        except EvaluationError as wrong:
            raise SelectorError(f"runtime error: attribute {name}: {wrong.message}") from None
    capacity: dict[str, dict[str, Any]] = {}
    for name, one in device.get("capacity", {}).items():
        domain, bare = _parts(name, driver)
        capacity.setdefault(domain, {})[bare] = parse_quantity(one["value"])
    return JsonMap(
        {
            "driver": driver,
            "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
            "attributes": _Domains(attributes),
            "capacity": _Domains(capacity),
        }
    )


def _parts(name: str, driver: str) -> tuple[str, str]:
    domain, slash, bare = name.partition("/")
    return (domain, bare) if slash else (driver, name)


def _attribute(attribute: Object) -> Any:
    for kind in ("int", "bool", "string"):
        if kind in attribute:
            return attribute[kind]
    if "version" in attribute:
        try:
            return parse_version(attribute["version"])
        except EvaluationError as wrong:
            raise EvaluationError(f"parse semantic version: {wrong.message}") from None
    raise EvaluationError("unsupported attribute value")
