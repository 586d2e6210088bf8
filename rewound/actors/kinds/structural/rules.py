"""The CEL rules of a schema: their types, their programs, and their evaluation on an object.

The CEL types of schema nodes have the sizes that cost estimates need. A node has no type where its schema declares
nothing that CEL could check: it cannot have rules, and rules do not see fields of such types. Each object has its own
type, named by its place: `selfType7.spec`, `.@idx` for the items of a list, `.@elem` for the values of a map. Sizes
without a limit in the schema follow from the largest request.

The rules of a node are parsed, checked against its type, and turned into programs, which read the values of an object
by the shape of each node. Parents are evaluated before children, items in order. A rule that uses oldSelf runs only
where the old object has a value at the same place, unless it takes oldSelf as an optional value: properties and keys
of maps correspond by name, items of keyed lists by their keys, items of other lists do not. All rules of an object
share one budget; the rule that exceeds it ends the evaluation. On the event loop rules run as long as they are cheap
together; then `need_thread` requests a worker thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, NamedTuple

from rewound.actors.cel.checker import check
from rewound.actors.cel.cost_estimate import estimate
from rewound.actors.cel.data import (
    BooleanShape,
    IntegerShape,
    IntOrStringShape,
    ListShape,
    MapShape,
    NumberShape,
    ObjectShape,
    OpaqueObjectShape,
    Shape,
    StringShape,
    UnknownShape,
    UntypedShape,
    escape,
)
from rewound.actors.cel.language import Language, language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import Problems
from rewound.actors.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Environment,
    MessageType,
    Type,
    list_of,
    map_of,
    optional_of,
)
from rewound.actors.cel.values import (
    NONE,
    BadData,
    CannotCompile,
    EvaluationError,
    EvaluationStopped,
    Optional,
)
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.rule_timings import COMPILATIONS, EVALUATIONS
from rewound.actors.kinds.structural.schema_node import Node, Rule, has_rules, rules_in
from rewound.actors.kinds.structural.validation import NO_PATH, is_unchanged, key_of
from rewound.actors.kinds.validation import OMITTED, FieldErrors, duplicate, forbidden, invalid, required
from rewound.actors.names import Names
from rewound.actors.runtime.budget import ThreadBudget
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.versions.features import RATCHETING, RULE_VALUES, TRIMMED_MESSAGES

_LARGEST_REQUEST: Final = 3 * 1024 * 1024
_LONGEST_TEXT: Final = _LARGEST_REQUEST - 2
_META: Final = Node(type="string")
_UNNAMED: Final = "object"


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """`least` is the size of the shortest JSON of a value, `elements` the most items, members or characters it can
    have.
    """

    type: Type
    least: int
    elements: int = 0
    fields: Mapping[str, Declared] | None = None  # of an object, by identifier
    element: Declared | None = None  # of a list or map

    @property
    def is_map(self) -> bool:
        return self.element is not None and self.type.name == "map"

    def most(self, path: Sequence[str]) -> int | None:
        """Return the size of the value at a path: a variable, then field names, @items, @values and @keys.

        None: the schema has no such value.
        """
        at: Declared | None = self
        for name in path[1:]:
            if at is None:
                return None
            if name in ("@items", "@values"):
                at = at.element
            elif name == "@keys":
                at = _KEY if at.is_map else None
            else:
                at = (at.fields or {}).get(name)
        return None if at is None else at.elements


_KEY: Final = Declared(STRING, 2)


def declare(node: Node, *, is_object: bool) -> Declared | None:
    """Return the type of a node, or None if it has none. `is_object`: the root of a resource, or an embedded object."""
    if node.int_or_string:
        return Declared(DYN, 1, _LONGEST_TEXT)
    if is_object:
        node = with_meta(node)
    match node.type:
        case "array":
            return _list(node)
        case "object":
            return _map(node) if node.values is not None else _object(node)
        case "string":
            return _string(node)
        case "boolean":
            return Declared(BOOL, 4)
        case "number":
            return Declared(DOUBLE, 1)
        case "integer":
            return Declared(INT, 1)
    return None


def with_meta(node: Node) -> Node:
    """Add kind, apiVersion and the two names of an object, which rules see whatever its schema declares."""
    properties = node.properties
    metadata = properties.get("metadata")
    if (
        _is_text(properties.get("kind"))
        and _is_text(properties.get("apiVersion"))
        and metadata is not None
        and metadata.type == "object"
        and _is_text(metadata.properties.get("name"))
        and _is_text(metadata.properties.get("generateName"))
    ):
        return node
    names = Node(type="object", properties={"name": _META, "generateName": _META})
    return node.replaced(properties={**properties, "kind": _META, "apiVersion": _META, "metadata": names})


def _is_text(node: Node | None) -> bool:
    return node is not None and node.type == "string"


def _list(node: Node) -> Declared | None:
    if node.items is None:
        return None
    item = declare(node.items, is_object=node.items.embedded)
    if item is None:
        return None
    limit = node.max_items
    most = (_LARGEST_REQUEST - 2) // (item.least + 1) if limit is None else max(limit, 0)
    return Declared(list_of(item.type), 2, most, element=item)


def _map(node: Node) -> Declared | None:
    assert node.values is not None
    value = declare(node.values, is_object=node.values.embedded)
    if value is None:
        return None
    limit = node.max_properties
    most = (_LARGEST_REQUEST - 2) // (value.least + 6) if limit is None else max(limit, 0)
    return Declared(map_of(STRING, value.type), 2, most, element=value)


def _object(node: Node) -> Declared:
    fields: dict[str, Declared] = {}
    least = 2
    for name, inner in node.properties.items():
        declared = declare(inner, is_object=inner.embedded)
        if declared is None:
            continue
        identifier = escape(name)
        if identifier is not None:
            fields[identifier] = declared
        if name in node.required and inner.default is None:
            least += len(name.encode()) + declared.least + 4
    return Declared(Type(_UNNAMED), least, fields=fields)


_FORMATS: Final = {
    "duration": Declared(DURATION, 3, 32),
    "date": Declared(TIMESTAMP, 12, 12),
    "date-time": Declared(TIMESTAMP, 21, 32),
}


def _string(node: Node) -> Declared:
    known = _FORMATS.get(node.format)
    if known is not None:
        return known
    if node.format == "byte":
        return Declared(BYTES, 2, _LONGEST_TEXT if node.max_length is None else max(node.max_length, 0))
    # maxLength counts characters, each of which may have four bytes.
    return Declared(STRING, 2, _LONGEST_TEXT if node.max_length is None else max(node.max_length, 0) * 4)


def named(declared: Declared, name: str, messages: dict[str, MessageType]) -> Declared:
    """Return the type with names for its object types, which are added to `messages`."""
    if declared.fields is not None:
        fields = {
            field: named(inner, f"{name}.{field}", messages) for field, inner in declared.fields.items()
        }
        messages[name] = MessageType(name, {field: inner.type for field, inner in fields.items()})
        return replace(declared, type=Type(name), fields=fields)
    if declared.element is None:
        return declared
    if declared.is_map:
        element = named(declared.element, f"{name}.@elem", messages)
        return replace(declared, type=map_of(STRING, element.type), element=element)
    element = named(declared.element, f"{name}.@idx", messages)
    return replace(declared, type=list_of(element.type), element=element)


def shape_of(node: Node, prefix: str, *, is_object: bool = False) -> Shape:
    """Return the shape of a node. `is_object`: the root of a resource, whose type and names rules see.

    `prefix` is that of schema extensions.
    """
    nullable = node.nullable
    if node.int_or_string:
        return IntOrStringShape(nullable)
    match node.type:
        case "object":
            return _shape_object(with_meta(node) if is_object or node.embedded else node, prefix)
        case "array":
            items = None if node.items is None else shape_of(node.items, prefix)
            return ListShape(items, node.list_type, node.list_keys, nullable)
        case "string":
            return StringShape(node.format, nullable)
        case "number":
            return NumberShape(nullable)
        case "integer":
            return IntegerShape(nullable)
        case "boolean":
            return BooleanShape(nullable)
    return UnknownShape(nullable) if node.preserve else UntypedShape(node.type, prefix, nullable)


def _shape_object(node: Node, prefix: str) -> Shape:
    if node.properties:
        shapes = {name: shape_of(inner, prefix) for name, inner in node.properties.items()}
        return ObjectShape(shapes, node.nullable)
    if node.values is not None:
        return MapShape(shape_of(node.values, prefix), node.nullable)
    return ObjectShape(None, node.nullable) if node.preserve else OpaqueObjectShape(node.nullable)


VARIABLES: Final = ("self", "oldSelf")


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """`program` is None for an empty rule and for one with an `error`."""

    rule: Rule
    program: Program | None = None
    error: str = ""
    is_transition: bool = False  # it uses oldSelf
    cost: int = 0  # estimated, of one evaluation
    message: Program | None = None  # of its messageExpression
    message_error: str = ""
    message_cost: int = 0
    field_path: str = ""  # below the node, as errors name it


class Languages:
    """The languages of the rules of a definition: those that are in a stored schema may use more than new ones."""

    def __init__(self, names: Names, features: frozenset[str], stored: Sequence[Rule]) -> None:
        self.features = features
        self._new = language_of(names, features)
        self._stored = language_of(names, features, stored=True)
        self._rules = {rule.rule for rule in stored}
        self._messages = {rule.message_expression for rule in stored}

    def of_rule(self, text: str) -> Language:
        return self._stored if text in self._rules else self._new

    def of_message(self, text: str) -> Language:
        return self._stored if text in self._messages else self._new


def compile_rules(
    node: Node, declared: Declared, languages: Languages, number: int = 0
) -> tuple[CompiledRule, ...]:
    """Compile the rules of a node. `number` is part of the name of the node's type, on which no rule may depend."""
    began = perf_counter()
    messages: dict[str, MessageType] = {}
    root = named(declared, f"selfType{number}", messages)
    variables = dict.fromkeys((*VARIABLES, "rule"), root.type)
    compiled = tuple(_compile(rule, node, root, variables, messages, languages) for rule in node.rules)
    COMPILATIONS.add(perf_counter() - began)
    return compiled


def _compile(
    rule: Rule,
    node: Node,
    root: Declared,
    variables: dict[str, Type],
    messages: dict[str, MessageType],
    languages: Languages,
) -> CompiledRule:
    if not rule.rule.strip():
        return CompiledRule(rule)
    if rule.optional_old_self:
        variables = {**variables, "oldSelf": optional_of(root.type)}
    environment = Environment(variables, messages, languages.of_rule(rule.rule))
    expression = parse(rule.rule, environment.language)
    checked = expression if isinstance(expression, Problems) else check(expression, environment)
    if isinstance(checked, Problems):
        return CompiledRule(rule, error=f"compilation failed: {checked}")
    if checked.result != BOOL:
        return CompiledRule(rule, error="cel expression must evaluate to a bool")
    is_transition = checked.names("oldSelf")
    try:
        program = compile_program(checked.expression, checked, VARIABLES)
    except CannotCompile as error:
        text = f"program instantiation failed: {error}"
        return CompiledRule(rule, error=text, is_transition=is_transition)
    cost = estimate(checked, root).most
    made = CompiledRule(rule, program, is_transition=is_transition, cost=cost)
    if rule.field_path:
        made = replace(made, field_path=field_path(node, rule.field_path) or "")
    if not rule.message_expression:
        return made
    language = languages.of_message(rule.message_expression)
    return _with_message(made, root, replace(environment, language=language))


def _with_message(made: CompiledRule, root: Declared, environment: Environment) -> CompiledRule:
    expression = parse(made.rule.message_expression, environment.language)
    checked = expression if isinstance(expression, Problems) else check(expression, environment)
    if isinstance(checked, Problems):
        return replace(made, message_error=f"messageExpression compilation failed: {checked}")
    if checked.result != STRING:
        return replace(made, message_error="messageExpression must evaluate to a string")
    try:
        program = compile_program(checked.expression, checked, VARIABLES)
    except CannotCompile as error:
        return replace(made, message_error=f"messageExpression instantiation failed: {error}")
    return replace(made, message=program, message_cost=estimate(checked, root).most)


_PATH_TOKEN: Final = re.compile(r"[.\[\]]|'(?>\\.|[^'])*+'|[^.\[\]]++", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


def field_path(node: Node, text: str) -> str | None:
    """Return the path of a field below a node as errors name it, or None if the schema has no such field.

    It consists of names after a dot and of quoted names in brackets: `.spec['with space'].name`.
    """
    # Read as far as the schema goes: the text may be much longer.
    tokens, path = (found[0] for found in _PATH_TOKEN.finditer(text)), ""
    for opening in tokens:
        name: str | None = next(tokens, None)
        if opening == "[":
            name = _unquoted(name) if name is not None and next(tokens, "") == "]" else None
        elif opening != ".":
            return None
        if name is None:
            return None
        if node.properties:
            if name not in node.properties:
                return None
            node, path = node.properties[name], f"{path}.{name}" if path else name
        elif node.values is not None:
            node, path = node.values, f"{path}[{name}]"
        else:
            return None
    return path or None


def _unquoted(token: str) -> str | None:
    """Return the name in single quotes, or None if it has an invalid escape."""
    parts = re.split(r"\\(.)", token[1:-1], flags=re.DOTALL)
    if (
        len(token) < 2
        or token[0] != "'"
        or token[-1] != "'"
        or any(one not in _ESCAPES for one in parts[1::2])
    ):
        return None
    return "".join(_ESCAPES[one] if index % 2 else one for index, one in enumerate(parts))


BUDGET: Final = 10_000_000  # of one object
_CHEAP: Final = 20_000  # some milliseconds
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


_MESSAGE_OUT_OF_BUDGET: Final = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules "
    "will be run"
)
_LONGEST_MESSAGE: Final = 5 * 1024  # bytes, of a messageExpression


class RuleStyle(NamedTuple):
    """How rules report, which differs by version."""

    ratchets: bool  # values that have not changed are not refused
    shows_values: bool  # errors show the value; without, its type
    trims: bool  # messages are shown without space around them

    def shown(self, type_: str, value: Any) -> Any:
        if not self.shows_values:
            return type_
        return OMITTED if type_ in ("object", "array") else value


class Unchanged:
    """Whether a value is the same as before, compared when somebody asks."""

    __slots__ = ("_found", "_values")

    def __init__(self, node: Node, new: Any, old: Any) -> None:
        self._values = node, new, old
        self._found: bool | None = None

    def __bool__(self) -> bool:
        if self._found is None:
            self._found = is_unchanged(*self._values)
        return self._found


class _Stopped(Exception):
    """The evaluation has ended."""


class _MessageStopped(Exception):
    """The message of a rule ended the evaluation, with this text."""


class _Run:
    """One evaluation of all rules of an object."""

    __slots__ = ("errors", "left")

    def __init__(self, errors: FieldErrors, budget: int) -> None:
        self.errors, self.left = errors, budget

    def spend(self, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        if self.left < BUDGET - _CHEAP:
            need_thread()
        return True


class RuleTree:
    """The rules of a node and of all nodes in it."""

    __slots__ = ("_items", "_keys", "_node", "_properties", "_rules", "_shape", "_style", "_type", "_values")

    def __init__(
        self,
        node: Node,
        rules: tuple[CompiledRule, ...],
        shape: Shape,
        items: RuleTree | None,
        properties: Mapping[str, RuleTree],
        values: RuleTree | None,
        style: RuleStyle,
    ) -> None:
        self._rules, self._shape, self._type = rules, shape, node.type
        self._node, self._style = node, style
        self._items, self._properties, self._values = items, properties, values
        self._keys = node.list_keys if node.type == "array" and node.list_type == "map" else ()

    def validate(
        self, errors: FieldErrors, new: Any, old: Any = None, path: str = "", budget: int = BUDGET
    ) -> int:
        """Add the errors that the rules find; return the rest of the budget, -1 if it was exceeded."""
        run, began = _Run(errors, budget), perf_counter()
        try:
            self._validate(run, path, new, old, None)
        except _Stopped:
            run.left = -1
        EVALUATIONS.add(perf_counter() - began)
        return run.left

    def _validate(self, run: _Run, path: str, new: Any, old: Any, around: Unchanged | None) -> None:
        """`around` says whether the nearest value around this one that has an old value is as it was."""
        if new is None:
            return
        if self._style.ratchets and old is not None:
            around = Unchanged(self._node, new, old)
        if self._rules:
            self._evaluate(run, path or NO_PATH, new, old, around)
        if type(new) is list:
            if self._items is not None:
                find = self._old_finder(old)
                for index, item in enumerate(new):
                    self._items._validate(run, f"{path}[{index}]", item, find(item), around)
        elif type(new) is dict:
            before = old if type(old) is dict else {}
            if self._values is not None:
                for name, member in new.items():
                    self._values._validate(run, f"{path}[{name}]", member, before.get(name), around)
            for name, tree in self._properties.items():
                if name in new:
                    here = f"{path}.{name}" if path else name
                    tree._validate(run, here, new[name], before.get(name), around)

    def _old_finder(self, old: Any) -> Callable[[Any], Any]:
        if not self._keys or type(old) is not list:
            return _no_old_value
        by_key: dict[Any, Any] = {}
        for item in old:
            key = key_of(item, self._keys)
            if key is not None:
                by_key.setdefault(key, item)
        return lambda item: by_key.get(key_of(item, self._keys))

    def _evaluate(self, run: _Run, path: str, new: Any, old: Any, around: Unchanged | None) -> None:
        if run.left <= 0:
            self._stop(run, path, _OUT_OF_BUDGET)
        read, before = self._read(new), None if old is None else self._read(old)
        for one in self._rules:
            if one.error:
                self._fail(run, path, f"rule compile error: {one.error}")
                continue
            optional = one.rule.optional_old_self
            if one.program is not None and (old is not None or not one.is_transition or optional):
                variables = read, (NONE if old is None else Optional(before)) if optional else before
                result, cost = one.program.evaluate(variables, ThreadBudget())
                if not run.spend(cost):
                    self._stop(run, path, _OUT_OF_BUDGET)
                if isinstance(result, (EvaluationError, EvaluationStopped)):
                    self._report(run, path, one.rule, result)
                elif result is not True:
                    self._refuse(run, path, one, new, variables, around)

    def _refuse(
        self,
        run: _Run,
        path: str,
        one: CompiledRule,
        new: Any,
        variables: tuple[Any, Any],
        around: Unchanged | None,
    ) -> None:
        """Report a rule that is not true; only warn if the value was stored before the rule and has not changed."""
        ratcheted = around is not None and not one.is_transition and bool(around)
        add = run.errors.warn if ratcheted else run.errors.add
        field = (
            path if not one.field_path else f"{path}.{one.field_path}" if path != NO_PATH else one.field_path
        )
        try:
            text = self._message(run, one, variables)
        except _MessageStopped as error:
            add(invalid(field, self._type, str(error)))
            raise _Stopped from None
        value = self._style.shown(self._type, new)
        match one.rule.reason:
            case "FieldValueForbidden":
                add(forbidden(field, text))
            case "FieldValueRequired":
                add(required(field, text))
            case "FieldValueDuplicate":
                add(duplicate(field, value))
            case _:
                add(invalid(field, value, text))

    def _message(self, run: _Run, one: CompiledRule, variables: tuple[Any, Any]) -> str:
        written = one.rule.message.strip() if self._style.trims else one.rule.message
        plain = written or f"failed rule: {one.rule.rule.strip()}"
        if one.message is None:
            return plain
        result, cost = one.message.evaluate(variables, ThreadBudget())
        if not run.spend(cost):
            raise _MessageStopped(_MESSAGE_OUT_OF_BUDGET)
        if isinstance(result, EvaluationStopped):
            why = (
                "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            )
            raise _MessageStopped(f"{why}: {quoted_start(one.rule.message_expression)}")
        text = result.strip() if isinstance(result, str) else ""
        usable = text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text
        return text if usable else plain

    def _read(self, value: Any) -> Any:
        try:
            return self._shape.wrap(value)
        except BadData as error:
            return error

    def _report(self, run: _Run, path: str, rule: Rule, result: EvaluationError | EvaluationStopped) -> None:
        text, said = result.message, (rule.message or rule.rule).strip()
        if text.startswith("no such overload"):
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            self._fail(run, path, f"'{text}': {why}: {said}")
        elif text.startswith("operation cancelled: actual cost limit exceeded"):
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(run, path, f"'{text}': {why}: {said}")
        else:
            self._fail(run, path, f"{text} evaluating rule: {said}")

    def _fail(self, run: _Run, path: str, text: str) -> None:
        run.errors.add(invalid(path, self._type, text))

    def _stop(self, run: _Run, path: str, text: str) -> None:
        self._fail(run, path, text)
        raise _Stopped


def _no_old_value(_: Any) -> Any:
    return None


def compile_tree(
    node: Node, names: Names, features: frozenset[str] = frozenset(), *, is_object: bool
) -> RuleTree | None:
    """Return the rules of a schema, or None if it has none. `is_object`: the node is the root of a resource."""
    if not has_rules(node):
        return None
    style = RuleStyle(RATCHETING in features, RULE_VALUES in features, TRIMMED_MESSAGES in features)
    maker = _TreeMaker(names.extension_prefix, Languages(names, features, rules_in([node])), style)
    return maker.tree(node, declare(node, is_object=is_object), is_object)


class _TreeMaker:
    def __init__(self, prefix: str, languages: Languages, style: RuleStyle) -> None:
        self._prefix, self._languages, self._style = prefix, languages, style

    def tree(self, node: Node, declared: Declared | None, is_object: bool) -> RuleTree | None:
        if declared is None:
            return None
        rules = compile_rules(node, declared, self._languages) if node.rules else ()
        items = values = None
        if node.items is not None:
            items = self.tree(node.items, declared.element, node.items.embedded)
        if node.values is not None:
            values = self.tree(node.values, declared.element, node.values.embedded)
        properties = {
            name: tree
            for name, inner in node.properties.items()
            if has_rules(inner) and (tree := self._property(name, inner, declared)) is not None
        }
        if not (rules or items or values or properties):
            return None
        shape = shape_of(node, self._prefix, is_object=is_object)
        return RuleTree(node, rules, shape, items, properties, values, self._style)

    def _property(self, name: str, inner: Node, around: Declared) -> RuleTree | None:
        identifier = escape(name)
        if identifier is None:
            return self.tree(inner, declare(inner, is_object=inner.embedded), inner.embedded)
        return self.tree(inner, (around.fields or {}).get(identifier), inner.embedded)
