"""Evaluates the CEL selectors of devices: `device.attributes["gpu.example.com"].memory > 16`.

An attribute or capacity without a domain has that of its driver. A domain that the device has nothing of is an empty
map, so that an expression can ask for it without `in`.

Users write the expressions. One that takes longer than a pause is compiled or evaluated in the worker thread of large
work: `match` then yields until `work`, which the scheduler awaits between two steps, has the result. Nothing is
evaluated twice for the same version of a device, as long as the result is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rewound.actors.cel.device_selectors import checked_selector
from rewound.actors.cel.json_data import JsonMap
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.quantities import parse as parse_quantity
from rewound.actors.cel.semver import parse as parse_version
from rewound.actors.cel.values import CannotCompile, EvaluationError, EvaluationStopped, type_name
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.budget import ThreadBudget
from rewound.actors.runtime.steps import Steps
from rewound.actors.runtime.time_limit import NeedsThread, TookTooLong, run_limited

if TYPE_CHECKING:
    from rewound.actors.runtime.large_work import LargeWork  # with trio, which `rewound why` does not need

_LONG: Final = 256  # characters that compile in a millisecond
# Compiled expressions: one claim may have a thousand, of ten thousand characters each.
_MOST_TEXT, _MOST_PROGRAMS = 512 * 1024, 2048
_MOST_RESULTS: Final = 100_000
_MOST_VALUES: Final = 1024  # devices as values of CEL
_USER: Final = "system:kube-scheduler"  # who waits for the thread

DeviceVersion = tuple[str, str, int]  # slice, its resourceVersion, position in it
_Result = bool | str  # a string: what is wrong


class SelectorError(Exception):
    """An expression cannot be compiled, or fails for a device; the text says which."""


class AnyDevice(Protocol):
    device: Object

    @property
    def driver(self) -> str: ...

    @property
    def version(self) -> DeviceVersion: ...


class _Compiled(NamedTuple):
    number: int
    program: Program | str  # a string: what is wrong with the expression


@dataclass(slots=True)
class _Work:
    """Work for the thread: its result, once it has one."""

    run: Callable[[], Any]
    result: Any = None
    is_done: bool = False


class DeviceSelectors:
    """The compiled expressions of a server, and what they say of devices."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._names, self._features = names, features
        self._programs: OrderedDict[str, _Compiled] = OrderedDict()
        self._text = 0  # characters of the expressions
        self._compiled = 0
        self._results: OrderedDict[tuple[int, DeviceVersion], _Result] = OrderedDict()
        self._values: OrderedDict[DeviceVersion, JsonMap] = OrderedDict()
        self._waiting: _Work | None = None

    def match(self, expression: str, device: AnyDevice) -> Steps[bool]:
        """Whether an expression selects a device. Raises SelectorError."""
        value = self._value(device)
        compiled = self._programs.get(expression)
        if compiled is None:
            compiled = yield from self._compile(expression)
        else:
            self._programs.move_to_end(expression)
        key = compiled.number, device.version
        result = self._results.get(key)
        if result is None:
            result = yield from self._evaluate(compiled.program, value)
            self._results[key] = result
            if len(self._results) > _MOST_RESULTS:
                self._results.popitem(last=False)
        if isinstance(result, str):
            raise SelectorError(result)
        return result

    async def work(self, large_work: LargeWork) -> float:
        """Do what `match` waits for, if anything; returns the seconds of processor time that it took."""
        waiting = self._waiting
        if waiting is None:
            return 0.0
        waiting.result, seconds = await large_work.run(_USER, _timed, waiting.run)
        waiting.is_done, self._waiting = True, None
        return seconds

    def work_here(self) -> None:
        """Do what `match` waits for in this thread, which runs no event loop."""
        if self._waiting is not None:
            self._waiting.result = run_limited(self._waiting.run)
            self._waiting.is_done, self._waiting = True, None

    def _in_thread(self, run: Callable[[], Any]) -> Steps[Any]:
        waiting = self._waiting = _Work(run)
        while not waiting.is_done:
            yield
        return waiting.result

    def _value(self, device: AnyDevice) -> JsonMap:
        version = device.version
        found = self._values.get(version)
        if found is None:
            found = self._values[version] = device_value(device.driver, device.device)
            if len(self._values) > _MOST_VALUES:
                self._values.popitem(last=False)
        return found

    def _compile(self, expression: str) -> Steps[_Compiled]:
        run = partial(_compiled, self._names, self._features, expression)
        program: Program | str
        if len(expression) > _LONG:
            program = yield from self._in_thread(run)
        else:
            program = run()
        self._compiled += 1
        found = self._programs[expression] = _Compiled(self._compiled, program)
        self._text += len(expression)
        while len(self._programs) > 1 and (self._text > _MOST_TEXT or len(self._programs) > _MOST_PROGRAMS):
            forgotten, _ = self._programs.popitem(last=False)
            self._text -= len(forgotten)
        return found

    def _evaluate(self, program: Program | str, value: JsonMap) -> Steps[_Result]:
        if isinstance(program, str):
            return program
        try:
            return _evaluated(program, value)
        except NeedsThread:
            result: _Result = yield from self._in_thread(partial(_evaluated, program, value))
            return result


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = thread_time()
    return run(), thread_time() - began


def _compiled(names: Names, features: frozenset[str], expression: str) -> Program | str:
    """The program of an expression, or what is wrong with it."""
    checked = checked_selector(names, features, expression)
    if isinstance(checked, str):
        return f"compile error: {checked}"
    try:
        return compile_program(*checked, ("device",))
    except CannotCompile as wrong:
        return f"compile error: program instantiation failed: {wrong}"


def _evaluated(program: Program, value: JsonMap) -> _Result:
    """Whether a program selects a device, or what is wrong. Raises NeedsThread in the event loop, if it takes long."""
    try:
        found = program.evaluate((value,), ThreadBudget()).result
    except TookTooLong as wrong:
        return f"runtime error: it takes too much processor time: {wrong.message}"
    if found.__class__ is bool:
        return bool(found)
    if isinstance(found, EvaluationError | EvaluationStopped):
        return f"runtime error: {found.message}"
    kind = type_name(found)
    return (
        f"runtime error: CEL result of type {kind} could not be converted to bool: {_conversion_error(kind)}"
    )


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
