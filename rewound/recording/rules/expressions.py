"""The CEL of rules: expressions over `event`, `object` and `oldObject`, with functions over a sliding window.

    event.kind == "Deployment" && fights(event, "5m")
    count(event.verb == "delete", event.user, "10m") > 20

A call of a window function is replaced in the syntax tree by a variable (as `actors.cel.kwok` does), because what a
window remembers must not depend on which side of && is evaluated: the windows of a rule see every event for which its
guard holds. The guard is what the expression says at the top, joined by &&, of names in the event: it takes no CEL, and
for most events it says no.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.costs import Costs
from rewound.actors.cel.formatting import format_text
from rewound.actors.cel.json_data import from_json
from rewound.actors.cel.language import Language, language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import (
    Call,
    Constant,
    Expression,
    Identifier,
    ListLiteral,
    Node,
    Problems,
    Select,
    conjuncts,
)
from rewound.actors.cel.types import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Environment,
    MessageType,
    Type,
    list_of,
)
from rewound.actors.cel.values import CannotCompile, EvaluationError, EvaluationStopped, Timestamp, printed
from rewound.actors.names import KUBERNETES
from rewound.actors.rewind.fights import FOUGHT
from rewound.actors.runtime.budget import Budget, OverBudget, StepBudget
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import NEWEST
from rewound.recording.query.moments import rfc3339
from rewound.recording.rules.occurrence import Occurrence
from rewound.recording.rules.windows import FieldFights, Window
from rewound.server.flags.values import parse_duration

LONGEST: Final = 4_000  # characters of an expression: checking takes some microseconds for each
LONGEST_WINDOW: Final = 7 * 86_400  # seconds
_MOST_PAUSES: Final = (
    15  # between them are some tenths of a millisecond: one evaluation takes at most about ten
)
_LONGEST_KEY: Final = 256  # characters; longer keys are remembered by their hash
_MOST_TURNS: Final = 60
MICROS: Final = 1_000_000

_EVENT: Final = "rewound.Event"
EVENT_FIELDS: Final[dict[str, Type]] = {
    **dict.fromkeys(("kind", "group", "resource", "apiVersion", "namespace", "name"), STRING),
    **dict.fromkeys(("verb", "change", "user", "manager", "reason", "message"), STRING),
    "offset": INT,
    "code": INT,
    "time": TIMESTAMP,
    "removed": BOOL,
    "refused": BOOL,
    "changed": list_of(STRING),
}
_VARIABLES: Final = ("event", "object", "oldObject")
# Fields of events that a guard compares without CEL.
_GUARDED: Final = frozenset(
    ("kind", "group", "resource", "namespace", "name", "verb", "change", "user", "manager")
)
_OF_KIND: Final = frozenset(("kind", "group", "resource"))


class BadExpression(ValueError):
    """An expression is invalid; the text says why."""


class Failed(Exception):
    """An expression has no value for an event."""

    def __init__(self, message: str, *, costly: bool = False) -> None:
        super().__init__(message)
        self.costly = costly  # it took too many steps, which is the rule's fault and not that of the event


@cache
def _language() -> Language:
    return language_of(KUBERNETES, choose_release(NEWEST).features, stored=True)


class _Compiled:
    """A checked expression, and what it needs of an event."""

    def __init__(self, checked: Checked, variables: tuple[str, ...]) -> None:
        try:
            self._program: Program = compile_program(checked.expression, checked, variables)
        except CannotCompile as error:
            raise BadExpression(str(error)) from None
        self.result = checked.result
        root = checked.expression.root
        self.needs_object, self.needs_old = checked.names("object"), checked.names("oldObject")
        self.needs_changed = any(
            isinstance(one, Select) and one.field == "changed" and _is_event(one.operand)
            for one in _walk(root)
        )

    def evaluate(self, values: Sequence[Any], costs: Costs) -> Any:
        """Raises Failed."""
        found, cost = self._program.evaluate(values, StepBudget(_MOST_PAUSES))
        costs.add(cost)
        if isinstance(found, EvaluationStopped):
            raise Failed(found.message, costly=True)
        if isinstance(found, EvaluationError):
            raise Failed(found.message, costly="cost limit" in found.message)
        return found


class EventValues:
    """The variables of one event as CEL values, made for the first rule that needs them and shared by all."""

    __slots__ = ("_event", "_object", "_old", "occurrence")

    def __init__(self, occurrence: Occurrence) -> None:
        self.occurrence = occurrence
        self._event: dict[str, Any] | None = None
        self._object: Any = _values_of  # not made yet
        self._old: Any = _values_of

    def of(self, compiled: _Compiled) -> list[Any]:
        event = self._event
        if event is None:
            event = self._event = _values_of(self.occurrence)
        if compiled.needs_changed and "changed" not in event:
            event["changed"] = self.occurrence.changed
        if compiled.needs_object and self._object is _values_of:
            self._object = from_json(self.occurrence.object)
        if compiled.needs_old and self._old is _values_of:
            self._old = from_json(self.occurrence.old_object)
        return [
            from_json(event),
            self._object if compiled.needs_object else None,
            self._old if compiled.needs_old else None,
        ]


def _values_of(occurrence: Occurrence) -> dict[str, Any]:
    event, kind, refused = occurrence.event, occurrence.kind, occurrence.refused or {}
    resource, _, group = kind.type_name.partition(".")
    return {
        "kind": kind.kind,
        "group": group,
        "resource": resource,
        "apiVersion": kind.api_version,
        "namespace": event.namespace,
        "name": event.name,
        "verb": event.verb,
        "change": occurrence.change,
        "user": event.user,
        "manager": event.manager,
        "reason": str(refused.get("reason", "")) or event.reason,
        "message": str(refused.get("message", "")),
        "code": int(refused.get("code", 0)),
        "offset": event.offset,
        "time": Timestamp(event.time // MICROS, event.time % MICROS * 1000),
        "removed": event.removed,
        "refused": occurrence.refused is not None,
    }


# Windows.


@dataclass(frozen=True, slots=True)
class _Counted:
    """count(CONDITION, KEY, "5m"), rate(...), distinct(CONDITION, KEY, VALUE, "5m"); without a key all have one."""

    window: Window
    condition: _Compiled | None  # None: every event
    key: _Compiled | None  # None: that of the object
    value: _Compiled | None
    per_second: float  # of rate; 0 for count

    @property
    def length(self) -> int:
        return self.window.length

    @property
    def forgotten(self) -> int:
        return self.window.forgotten + self.window.dropped

    def add(self, values: EventValues, costs: Costs) -> int | float:
        occurrence = values.occurrence
        condition = self.condition
        holds = condition is None or condition.evaluate(values.of(condition), costs) is True
        key: Any = occurrence.object_key
        if self.key is not None:
            key = _key(self.key.evaluate(values.of(self.key), costs))
        if holds and not occurrence.exists:
            value = self.value and _key(self.value.evaluate(values.of(self.value), costs))
            self.window.add(key, occurrence.time, value)
        found = self.window.count(key, occurrence.time)
        return found * self.per_second if self.per_second else found


@dataclass(frozen=True, slots=True)
class _Fights:
    fights: FieldFights

    @property
    def length(self) -> int:
        return self.fights.length

    @property
    def forgotten(self) -> int:
        return self.fights.forgotten

    def add(self, values: EventValues, costs: Costs) -> bool:
        return bool(self.fights.add(values.occurrence))


_WindowCall = _Counted | _Fights


def _key(value: Any) -> str:
    """A value as the key of a window. Raises Failed for maps, lists and others that are no names."""
    if value.__class__ is str:
        if len(value) <= _LONGEST_KEY:
            return str(value)
        return "sha256:" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    if isinstance(value, bool | int | float):
        return str(value)
    raise Failed("a key must be a string, a number or a bool")


def _text(value: Any, budget: Budget) -> str:
    if value is None or value.__class__ is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Timestamp):
        return rfc3339(value.seconds * MICROS + value.nanoseconds // 1000)
    try:
        return format_text(budget, "%s", [value])
    except EvaluationError:
        return printed(value)


# The guard.


@dataclass(frozen=True, slots=True)
class Guard:
    """Values that fields of an event must have, by the name of the field."""

    of_kind: tuple[tuple[str, frozenset[str]], ...]
    of_event: tuple[tuple[str, frozenset[str]], ...]
    refused: bool | None  # None: both

    def wants(self, type_name: str, kind: str) -> bool:
        resource, _, group = type_name.partition(".")
        known = {"kind": kind, "group": group, "resource": resource}
        return all(known[name] in values for name, values in self.of_kind)

    def holds(self, occurrence: Occurrence) -> bool:
        if self.refused is not None and self.refused is (occurrence.refused is None):
            return False
        for name, values in self.of_event:
            found = occurrence.change if name == "change" else getattr(occurrence.event, name)
            if found not in values:
                return False
        return True


def _guard(root: Node) -> Guard:
    found: dict[str, frozenset[str]] = {}
    names_refused = any(isinstance(one, Select) and one.field == "refused" for one in _walk(root))
    refused: bool | None = None if names_refused else False
    for one in conjuncts(root):
        if isinstance(one, Select) and one.field == "refused" and _is_event(one.operand):
            refused = True
        for name, values in _compared(one):
            found[name] = found[name] & values if name in found else values
    return Guard(
        tuple((name, values) for name, values in found.items() if name in _OF_KIND),
        tuple((name, values) for name, values in found.items() if name not in _OF_KIND),
        refused,
    )


def _compared(node: Node) -> Iterator[tuple[str, frozenset[str]]]:
    """event.kind == "Pod", "Pod" == event.kind, event.kind in ["Pod", "Node"]"""
    if not isinstance(node, Call):
        return
    if node.function == "_==_":
        for one, other in (node.arguments, node.arguments[::-1]):
            if _guarded(one) and isinstance(other, Constant) and isinstance(other.value, str):
                yield _guarded(one), frozenset((other.value,))
    elif node.function == "@in" and isinstance(node.arguments[1], ListLiteral):
        items = node.arguments[1].items
        texts = [one.value for one in items if isinstance(one, Constant) and isinstance(one.value, str)]
        if _guarded(node.arguments[0]) and len(texts) == len(items):
            yield _guarded(node.arguments[0]), frozenset(texts)


def _guarded(node: Node) -> str:
    """The field of an event that a node is; empty for anything else."""
    known = isinstance(node, Select) and node.field in _GUARDED and _is_event(node.operand)
    return node.field if isinstance(node, Select) and known else ""


def _is_event(node: Node) -> bool:
    return isinstance(node, Identifier) and node.name.lstrip(".") == "event"


def _walk(part: Any) -> Iterator[Node]:
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting.extend(one)
        elif isinstance(one, Node):
            yield one
            waiting.extend(getattr(one, each.name) for each in fields(one))


# Compiling.


class Condition:
    """The expression of a rule, with its windows."""

    def __init__(self, text: str, costs: Costs | None = None) -> None:
        """Raises BadExpression."""
        self.costs = costs or Costs()
        parsed = _parsed(text)
        rewriting = _Rewriting(parsed)
        root = rewriting.node(parsed.root)
        self._windows: list[_WindowCall] = [call for call, _ in rewriting.found]
        types = {_name(number): of for number, (_, of) in enumerate(rewriting.found)}
        self._compiled = _compile(replace(parsed, root=root), types)
        if self._compiled.result not in (BOOL, DYN):
            raise BadExpression(f"is of type {self._compiled.result}, and must be true or false")
        self.guard = _guard(parsed.root)

    @property
    def span(self) -> int:
        """How far back its windows look."""
        return max((one.length for one in self._windows), default=0)

    @property
    def forgotten(self) -> int:
        return sum(one.forgotten for one in self._windows)

    def holds(self, values: EventValues) -> bool:
        """Raises Failed. Every window gets the event, also if one of them fails."""
        found: list[Any] = []
        failure: Failed | None = None
        for one in self._windows:
            try:
                found.append(one.add(values, self.costs))
            except Failed as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return self._compiled.evaluate([*values.of(self._compiled), *found], self.costs) is True


class Value:
    """An expression of an event with any value: part of a message, or what alerts are grouped by."""

    def __init__(self, text: str, costs: Costs) -> None:
        """Raises BadExpression."""
        self.text, self._costs = text, costs
        parsed = _parsed(text)
        if _Rewriting(parsed).finds(parsed.root):
            raise BadExpression("has a function of a window, which only `expression` may use")
        self._compiled = _compile(parsed, {})

    def of(self, values: EventValues) -> Any:
        """Raises Failed."""
        return self._compiled.evaluate(values.of(self._compiled), self._costs)

    def text_for(self, values: EventValues) -> str:
        """The value in a message. Raises Failed."""
        try:
            return _text(self.of(values), StepBudget(_MOST_PAUSES))
        except OverBudget as error:
            raise Failed(str(error), costly=True) from None

    def key(self, values: EventValues) -> str:
        """Raises Failed."""
        return _key(self.of(values))


def _parsed(text: str) -> Expression:
    if len(text) > LONGEST:
        raise BadExpression(f"has {len(text):,} characters; at most {LONGEST:,} are allowed")
    parsed = parse(text, _language())
    if isinstance(parsed, Problems):
        raise BadExpression(str(parsed))
    return parsed


def _compile(expression: Expression, windows: dict[str, Type]) -> _Compiled:
    variables = {"event": Type(_EVENT), "object": DYN, "oldObject": DYN, **windows}
    environment = Environment(variables, {_EVENT: MessageType(_EVENT, EVENT_FIELDS)}, _language())
    checked = check(expression, environment)
    if isinstance(checked, Problems):
        raise BadExpression(str(checked))
    return _Compiled(checked, (*_VARIABLES, *windows))


def _name(number: int) -> str:
    return f"window {number}"  # no identifier of an expression


_FUNCTIONS: Final = {
    "fights": 'fights(event, "5m") or fights(event, "5m", TURNS)',
    "count": 'count(event, "5m"), count(CONDITION, "5m") or count(CONDITION, KEY, "5m")',
    "rate": 'rate(event, "5m"), rate(CONDITION, "5m") or rate(CONDITION, KEY, "5m")',
    "distinct": 'distinct(CONDITION, VALUE, "5m") or distinct(CONDITION, KEY, VALUE, "5m")',
}


class _Rewriting:
    """Replaces the window functions of a syntax tree by variables."""

    def __init__(self, parsed: Expression) -> None:
        self._parsed = parsed
        self.found: list[tuple[_WindowCall, Type]] = []

    def finds(self, root: Node) -> bool:
        return any(isinstance(one, Call) and _is_window(one) for one in _walk(root))

    def node(self, node: Node) -> Node:
        if isinstance(node, Call) and _is_window(node):
            self.found.append(self._window(node))
            return Identifier(node.id, _name(len(self.found) - 1))
        changed = {
            one.name: self._part(before)
            for one in fields(node)
            if isinstance(before := getattr(node, one.name), (Node, tuple))
        }
        return replace(node, **changed) if changed else node

    def _part(self, part: Any) -> Any:
        if isinstance(part, Node):
            return self.node(part)
        return tuple(map(self._part, part)) if isinstance(part, tuple) else part

    def _window(self, call: Call) -> tuple[_WindowCall, Type]:
        name, given = call.function, call.arguments
        if name == "fights":
            if len(given) not in (2, 3) or not _is_event(given[0]):
                raise _wrong(name)
            turns = given[2].value if len(given) == 3 and isinstance(given[2], Constant) else None
            if len(given) == 3 and not (turns.__class__ is int and 2 <= turns <= _MOST_TURNS):
                raise BadExpression(f"fights(): TURNS must be a number from 2 to {_MOST_TURNS}")
            return _Fights(FieldFights(self._length(name, given[1]), turns or FOUGHT)), BOOL
        values = {"distinct": 1}.get(name, 0)
        if not 2 + values <= len(given) <= 3 + values:
            raise _wrong(name)
        *parts, length = given
        micros = self._length(name, length)
        condition, key = parts[0], parts[1] if len(parts) == 2 + values else None
        value = self._compiled(name, parts[-1]) if values else None
        window = Window(micros, distinct=bool(values))
        per_second = MICROS / micros if name == "rate" else 0.0
        if _is_event(condition):
            if key is not None or values:
                raise _wrong(name)
            return _Counted(window, None, None, None, per_second), DOUBLE if per_second else INT
        tested = self._compiled(name, condition)
        if tested.result not in (BOOL, DYN):
            raise BadExpression(f"{name}(): CONDITION is of type {tested.result}, and must be true or false")
        keyed = self._compiled(name, key) if key is not None else _everything()
        return _Counted(window, tested, keyed, value, per_second), DOUBLE if per_second else INT

    def _compiled(self, name: str, node: Node) -> _Compiled:
        if self.finds(node):
            raise BadExpression(f"{name}(): has a function of a window in it")
        try:
            return _compile(replace(self._parsed, root=node), {})
        except BadExpression as error:
            raise BadExpression(
                f"{name}(): each of its arguments is an expression of its own: {error}"
            ) from None

    def _length(self, name: str, node: Node) -> int:
        text = node.value if isinstance(node, Constant) else None
        if not isinstance(text, str):
            raise BadExpression(f'{name}(): the window must be a text like "5m"')
        return window_length(f"{name}()", text)


def window_length(name: str, text: str) -> int:
    """A window in microseconds. Raises BadExpression."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise BadExpression(f"{name}: {error}") from None
    if not 1 <= seconds <= LONGEST_WINDOW:
        raise BadExpression(f"{name}: the window {text!r} must be from 1s to 7d")
    return round(seconds * MICROS)


def _is_window(call: Call) -> bool:
    return call.target is None and call.function in _FUNCTIONS


def _wrong(name: str) -> BadExpression:
    return BadExpression(f"{name}(): write {_FUNCTIONS[name]}")


@cache
def _everything() -> _Compiled:
    """The key of a window whose events are counted together."""
    return _compile(_parsed("''"), {})
