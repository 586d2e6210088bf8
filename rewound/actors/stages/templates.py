"""The subset of Go's text/template that Stages use, with kwok's functions (docs/nodes.md lists it).

    template = Template('phase: {{ if .spec.initContainers }}Pending{{ else }}Running{{ end }}')
    template.render(pod, {"Now": lambda: "2026-01-01T00:00:00Z"})

A template is parsed once into functions that write text. Missing fields of the object are nil, as in a Go map. An
action or function outside this subset raises a TemplateError that names it. Integers are those of Go: int64, which wrap
around. Intermediate values have a `StageBudget`, so that no template takes long, or much memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from rewound.actors.golang.quoting import quoted
from rewound.actors.runtime.budget import OverBudget
from rewound.actors.runtime.steps import Steps
from rewound.actors.stages.budget import StageBudget, fitting

Function = Callable[..., Any]


class TemplateError(ValueError):
    """The text is no template of the supported subset, or cannot be applied to an object."""


MOST_TEXT: Final = (
    64 << 10
)  # characters of a template, and of one action: parsing takes up to 5 microseconds for each
MOST_ACTION: Final = 2 << 10
# Per rendering, which runs in the event loop: blocks entered (each iteration of a range is one), and characters
# written.
MOST_BLOCKS: Final = 10_000
MOST_WRITTEN: Final = 1 << 20
_TOTAL: Final = 300_000_000  # estimated nanoseconds, in turns
_AT_ONCE: Final = 3_000_000  # of one action
_STEP: Final = 400
_HOP: Final = 100  # to an outer block, or to the next argument
_DEEPEST: Final = 64  # blocks inside each other: what the innermost writes passes through all


def template_budget() -> StageBudget:
    return StageBudget(_TOTAL, _AT_ONCE)


class _Scope:
    """The variables of a block, inside those of its outer blocks."""

    def __init__(self, outer: _Scope | None, functions: Mapping[str, Function], budget: StageBudget) -> None:
        self.budget = budget
        self._outer = outer
        self._entered: list[None] = [] if outer is None else outer._entered  # shared by all blocks
        self._variables: dict[str, Any] = {}
        self.functions = functions

    def inner(self) -> _Scope:
        self._entered.append(None)
        if len(self._entered) > MOST_BLOCKS:
            raise TemplateError(f"it enters more than {MOST_BLOCKS} blocks and turns of a range")
        return _Scope(self, self.functions, self.budget)

    def declare(self, name: str, value: Any) -> None:
        self._variables[name] = value

    def assign(self, name: str, value: Any) -> None:
        scope: _Scope | None = self
        while scope is not None and name not in scope._variables:
            self.budget.spend(_HOP)
            scope = scope._outer
        if scope is None:
            raise TemplateError(f"undefined variable {name}")
        scope._variables[name] = value

    def get(self, name: str) -> Any:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope._variables:
                return scope._variables[name]
            self.budget.spend(_HOP)
            scope = scope._outer
        raise TemplateError(f"undefined variable {name}")


Value = Callable[[Any, _Scope], Any]  # a function of the dot and the variables
Part = Callable[[Any, _Scope], Iterator[str]]


class Template:
    def __init__(self, text: str) -> None:
        """Raises TemplateError if the text is no supported template."""
        if len(text) > MOST_TEXT:
            raise TemplateError(f"it has {len(text)} characters; at most {MOST_TEXT} are allowed")
        parser = _Parser(_pieces(text.strip()))
        self._parts, end = parser.block()
        if end:
            raise TemplateError(f"unexpected {{{{{end}}}}}")

    def render(self, data: Any, functions: Mapping[str, Function], budget: StageBudget) -> str:
        """Render without a pause. Raises TemplateError if it fails or costs too much."""
        steps = self.steps(data, functions, budget)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return str(end.value)

    def steps(self, data: Any, functions: Mapping[str, Function], budget: StageBudget) -> Steps[str]:
        """Like `render`, with pauses. Raises TemplateError."""
        scope = _Scope(None, {**_FUNCTIONS, **functions}, budget)
        scope.declare("$", data)
        found, size = [], 0
        try:
            for piece in _written(self._parts, data, scope):
                size += len(piece)
                if size > MOST_WRITTEN:
                    raise TemplateError(f"it writes more than {MOST_WRITTEN} characters")
                found.append(piece)
                if budget.rest():
                    yield
                    budget.resume()
        except OverBudget as error:
            raise TemplateError(str(error)) from error
        except RecursionError as error:
            raise TemplateError("it is nested too deeply, or makes a value that is") from error
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            if isinstance(error, TemplateError):
                raise
            raise TemplateError(f"{type(error).__name__}: {error}") from error
        return "".join(found)


def _written(parts: Sequence[Part], dot: Any, scope: _Scope) -> Iterator[str]:
    """A text for each part, possibly empty: there it may pause."""
    for part in parts:
        scope.budget.spend(_STEP)
        yield from part(dot, scope)


class _Piece(NamedTuple):
    is_action: bool
    text: str


_ACTION: Final = re.compile(
    r"""\{\{(?P<left>-(?=\s))?(?P<body>\s*/\*.*?\*/\s*|(?:"(?:[^"\\\n]|\\.)*"|`[^`]*`|(?!\}\})[^"`])*?)"""
    r"""(?P<right>(?<=\s)-)?\}\}""",
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    | (?P<number>[+-]?\d+(?:\.\d+)?)
    | (?P<variable>\$[A-Za-z0-9_]*)
    | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>:=|[.|,()=])
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    )""",
    re.VERBOSE,
)
_UNSUPPORTED: Final = ("define", "template", "block", "break", "continue")


def _pieces(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    at, trims = 0, False
    while (start := text.find("{{", at)) >= 0:
        match = _ACTION.match(text, start)
        if match is None:  # fail at once: searching after it would take as many passes as there are
            raise TemplateError(f"unclosed action: {text[start:][:40]!r}")
        before = text[at:start]
        before = before.lstrip() if trims else before
        pieces.append(_Piece(False, before.rstrip() if match["left"] else before))
        body = match["body"].strip()
        if not (body.startswith("/*") and body.endswith("*/")):
            if len(body) > MOST_ACTION:
                raise TemplateError(f"an action has more than {MOST_ACTION} characters: {body[:40]!r}...")
            pieces.append(_Piece(True, body))
        at, trims = match.end(), bool(match["right"])
    pieces.append(_Piece(False, text[at:].lstrip() if trims else text[at:]))
    return [piece for piece in pieces if piece.text or piece.is_action]


class _Parser:
    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = pieces
        self._at = self._depth = 0

    def block(self) -> tuple[list[Part], str]:
        """The parts up to an `end` or `else`, and that action; "" at the end of the text."""
        parts: list[Part] = []
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            if not piece.is_action:
                parts.append(_constant_text(piece.text))
                continue
            word, _, rest = piece.text.partition(" ")
            if word in ("end", "else"):
                return parts, piece.text
            if word in _UNSUPPORTED:
                raise TemplateError(f"the action {word} is not supported in Stages")
            if word in ("if", "with", "range"):
                parts.append(self._control(word, rest))
            else:
                parts.append(_action(piece.text))
        return parts, ""

    def _control(self, word: str, rest: str) -> Part:
        pipeline = _Pipeline(rest)
        value = pipeline.parse(ranged=word == "range")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TemplateError(f"it nests more than {_DEEPEST} blocks")
        body, end = self.block()
        otherwise: list[Part] = []
        if end.startswith("else"):
            nested = end[4:].strip()
            if nested:
                inner, _, condition = nested.partition(" ")
                otherwise = [self._control(inner, condition)]
                end = "end"
            else:
                otherwise, end = self.block()
        self._depth -= 1
        if end != "end":
            raise TemplateError(f"{word} without an end")
        if word == "range":
            return _range(value, pipeline.names, body, otherwise)
        return _conditional(value, pipeline, body, otherwise, changes_dot=word == "with")


def _constant_text(text: str) -> Part:
    return lambda dot, scope: iter((text,))


def _action(text: str) -> Part:
    pipeline = _Pipeline(text)
    value = pipeline.parse()

    def written(dot: Any, scope: _Scope) -> Iterator[str]:
        found = value(dot, scope)
        if pipeline.names:
            pipeline.store(scope, found)
            yield ""
        else:
            yield _shown_within(scope.budget, found)

    return written


def _conditional(
    value: Value, pipeline: _Pipeline, body: list[Part], otherwise: list[Part], *, changes_dot: bool
) -> Part:
    def written(dot: Any, scope: _Scope) -> Iterator[str]:
        inner = scope.inner()
        found = value(dot, inner)
        if pipeline.names:
            pipeline.store(inner, found)
        yield ""
        if _true(found):
            yield from _written(body, found if changes_dot else dot, inner)
        else:
            yield from _written(otherwise, dot, scope.inner())

    return written


def _range(value: Value, names: Sequence[str], body: list[Part], otherwise: list[Part]) -> Part:
    def written(dot: Any, scope: _Scope) -> Iterator[str]:
        items = _items(value(dot, scope), scope.budget)
        yield ""
        if not items:
            yield from _written(otherwise, dot, scope.inner())
        for key, item in items:
            yield ""
            inner = scope.inner()
            for name, found in zip(names, (key, item) if len(names) == 2 else (item,), strict=False):
                inner.declare(name, found)
            yield from _written(body, item, inner)

    return written


def _items(found: Any, budget: StageBudget) -> list[tuple[Any, Any]]:
    if found is None:
        return []
    if isinstance(found, (dict, list)):
        budget.spend(_STEP * len(found))
    if isinstance(found, dict):
        return sorted(found.items())
    if isinstance(found, list):
        return list(enumerate(found))
    if isinstance(found, int) and not isinstance(found, bool):
        if found > MOST_BLOCKS:
            raise TemplateError(f"range over {found} has more than {MOST_BLOCKS} turns")
        return [(number, number) for number in range(found)]
    raise TemplateError(f"range can't iterate over {_brief(found)}")


class _Pipeline:
    """`$a := f .x "y" | g`: operands, calls, and the variables that get the result."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self.names: list[str] = []
        self._declares = True

    def parse(self, *, ranged: bool = False) -> Value:
        self._variables(ranged)
        found = self._commands()
        if self._at < len(self._tokens):
            raise self._unexpected()
        return found

    def store(self, scope: _Scope, value: Any) -> None:
        if self._declares:
            scope.declare(self.names[0], value)
        else:
            scope.assign(self.names[0], value)

    def _variables(self, ranged: bool) -> None:
        tokens = self._tokens
        if tokens[1:2] == [":="] or tokens[1:2] == ["="]:
            self.names, self._declares, self._at = [tokens[0]], tokens[1] == ":=", 2
        elif ranged and tokens[1:2] == [","] and tokens[3:4] == [":="]:
            self.names, self._at = [tokens[0], tokens[2]], 4
        if any(not name.startswith("$") for name in self.names):
            raise self._unexpected()

    def _commands(self) -> Value:
        found = self._command(None)
        while self._peek() == "|":
            self._at += 1
            found = self._command(found)
        return found

    def _command(self, piped: Value | None) -> Value:
        token = self._peek()
        if token and (token[0].isalpha() or token[0] == "_") and token not in _WORDS:
            self._at += 1
            arguments = []
            while self._peek() not in ("", "|", ")"):
                arguments.append(self._operand())
            return _call(token, [*arguments, *([piped] if piped is not None else [])])
        if piped is not None:
            raise TemplateError(f"{self._text!r}: only a function can follow |")
        found = self._operand()
        if self._peek() not in ("", "|", ")"):
            raise self._unexpected()
        return found

    def _operand(self) -> Value:
        token = self._next()
        found = self._first(token)
        while (field := self._peek()).startswith(".") and len(field) > 1 and self._follows:
            self._at += 1
            found = _field(found, field[1:])
        return found

    @property
    def _follows(self) -> bool:
        """Whether the next token directly follows the one before: `$x.a`, and not `$x .a`."""
        return not self._tokens.spaced[self._at]

    def _first(self, token: str) -> Value:
        if token == "(":
            found = self._commands()
            if self._next() != ")":
                raise self._unexpected()
            return found
        if token == ".":
            return lambda dot, scope: dot
        if token.startswith("."):
            return _field(lambda dot, scope: dot, token[1:])
        if token.startswith("$"):
            return lambda dot, scope: scope.get(token)
        if token in _WORDS:
            constant = _WORDS[token]
            return lambda dot, scope: constant
        if token[0] in '"`':
            text = token[1:-1] if token[0] == "`" else _unquoted(token)
            return lambda dot, scope: text
        if token[0].isdigit() or token[0] in "+-":
            number = float(token) if "." in token else _literal(token)
            return lambda dot, scope: number
        if token[0].isalpha() or token[0] == "_":
            return _call(token, [])
        raise self._unexpected()

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise TemplateError(f"{self._text!r}: ends too early")
        self._at += 1
        return token

    def _unexpected(self) -> TemplateError:
        return TemplateError(f"{self._text!r}: unexpected {self._peek() or 'end'!r}")


class _Tokens(list[str]):
    def __init__(self) -> None:
        super().__init__()
        self.spaced: list[bool] = []  # whether whitespace precedes the token


_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "nil": None}


def _tokens(text: str) -> _Tokens:
    tokens, at = _Tokens(), 0
    rest = text.rstrip()
    while at < len(rest):
        match = _TOKEN.match(rest, at)
        if match is None:
            raise TemplateError(f"{text!r}: {rest[at:].strip()[:1]!r} is not supported in Stages")
        token = match[0].strip()
        tokens.append(token)
        tokens.spaced.append(match[0] != token)
        at = match.end()
    if not tokens:
        raise TemplateError("an action is empty")
    return tokens


def _literal(token: str) -> int:
    if len(token) > _DIGITS or not _LOWEST <= int(token) <= _HIGHEST:
        raise TemplateError(f"integer overflow: {token[:40]}")
    return int(token)


def _unquoted(token: str) -> str:
    try:
        text: str = json.loads(token)
    except ValueError:
        raise TemplateError(f"{token}: is no text with escapes of JSON") from None
    return text


def _field(of: Value, name: str) -> Value:
    def field(dot: Any, scope: _Scope) -> Any:
        found = of(dot, scope)
        if found is None:
            return None
        if isinstance(found, dict):
            return found.get(name)
        raise TemplateError(f"can't evaluate field {name} of {_brief(found)}")

    return field


def _call(name: str, arguments: list[Value]) -> Value:
    if name in ("and", "or"):
        return _short_circuit(arguments, stops=name == "or")

    def call(dot: Any, scope: _Scope) -> Any:
        function = scope.functions.get(name)
        if function is None:
            raise TemplateError(f"the function {name} is not supported in Stages")
        values = [one(dot, scope) for one in arguments]
        budget = scope.budget
        budget.spend(_STEP + _HOP * len(values))
        if (weight := _WEIGHTS.get(name)) is not None:
            budget.spend(weight * sum(map(budget.size, values)))
        if name in _MAKING:
            values = [budget, *values]
        return _kept(function(*values), budget)

    return call


def _kept(value: Any, budget: StageBudget) -> Any:
    """The result of a function, if it is not too large; an integer as int64."""
    if isinstance(value, str):
        return budget.text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _wrapped(value)
    return value


def _wrapped(number: int) -> int:
    return (number - _LOWEST) % (1 << 64) + _LOWEST


def _short_circuit(arguments: list[Value], *, stops: bool) -> Value:
    def call(dot: Any, scope: _Scope) -> Any:
        found = None
        for one in arguments:
            scope.budget.spend(_STEP)
            found = one(dot, scope)
            if _true(found) is stops:
                break
        return found

    return call


def _true(value: Any) -> bool:
    return bool(value)


def _shown(value: Any) -> str:
    """Formatted as by Go's fmt."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_shown(one)}' for key, one in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_shown, value))}]"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


def _shown_within(budget: StageBudget, value: Any) -> str:
    if not isinstance(value, str):
        budget.spend(_SHOWN * budget.size(value))
    return _shown(value)


def _brief(value: Any) -> str:
    """Abbreviated, for errors."""
    if isinstance(value, (dict, list)):
        return "a map" if isinstance(value, dict) else "a list"
    return _shown(value)[:64]


def _quote(value: Any) -> str:
    if isinstance(value, str):
        return orjson.dumps(value).decode()
    return quoted(orjson.dumps(value).decode())


def _yaml(value: Any, indent: int = 0) -> str:
    """JSON is YAML, and stays one line however deep it is."""
    if not 0 <= indent <= _MOST_INDENT:
        raise TemplateError(f"YAML: the indent {indent} is not within 0 and {_MOST_INDENT}")
    return ("\n" + "  " * indent if indent else "") + orjson.dumps(
        value, option=orjson.OPT_SORT_KEYS
    ).decode()


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is None:
            return None
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, (list, str)) and isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        else:
            raise TemplateError(f"index {_brief(key)} is out of range")
    return value


_WIDE: Final = re.compile(r"%[-+ 0-9.]*[0-9]{4}")


def _printf(layout: str, *values: Any) -> str:
    rest, size = list(values)[::-1], len(layout)
    if _WIDE.search(layout):
        raise TemplateError(f"printf {quoted(layout[:64])}: a width or precision has at most three digits")

    def replaced(match: re.Match[str]) -> str:
        nonlocal size
        text = formatted(match)
        size = fitting(size + len(text))
        return text

    def formatted(match: re.Match[str]) -> str:
        verb = match[0][-1]
        if verb == "%":
            return "%"
        value = rest.pop() if rest else "%!" + verb + "(MISSING)"
        if verb == "q":
            return quoted(_shown(value))
        if verb in "vst":
            return _shown(value).rjust(0)
        return match[0] % value

    return re.sub(r"%[-+ 0-9.]*[a-zA-Z%]", replaced, layout)


def _compared(compare: Callable[[Any, Any], bool]) -> Function:
    def compared(left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str):
            raise TemplateError("incompatible types for comparison")
        return compare(left, right)

    return compared


_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 63) - 1
_DIGITS: Final = 20  # of an int64 with its sign
_MOST_INDENT: Final = 100


def _number(value: Any) -> int:
    if isinstance(value, str):
        text = value.strip()[: _DIGITS + 1]
        value = (int(text) if text.removeprefix("-").isdecimal() else float(value)) if text else 0
    found = int(value or 0)
    if not _LOWEST <= found <= _HIGHEST:
        raise TemplateError("a number is no int64: it is below -2^63, or above 2^63 - 1")
    return found


def _divided(left: Any, right: Any) -> int:
    """Truncated, as in Go."""
    dividend, divisor = _number(left), _number(right)
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(left: Any, right: Any) -> int:
    return _number(left) - _number(right) * _divided(left, right)


def _replaced(old: str, new: str, value: str) -> str:
    fitting(len(value) + value.count(old) * max(0, len(new) - len(old)))
    return value.replace(old, new)


def _joined(separator: str, values: Any) -> str:
    shown = [_shown(one) for one in values]
    fitting(sum(map(len, shown)) + len(separator) * len(shown))
    return separator.join(shown)


_FUNCTIONS: Final[dict[str, Function]] = {
    "not": lambda value: not _true(value),
    "eq": lambda left, *others: any(left == one for one in others),
    "ne": lambda left, right: left != right,
    "lt": _compared(lambda left, right: left < right),
    "le": _compared(lambda left, right: left <= right),
    "gt": _compared(lambda left, right: left > right),
    "ge": _compared(lambda left, right: left >= right),
    "index": _index,
    "len": lambda value: len(value or ()),
    "print": lambda *values: "".join(map(_shown, values)),
    "printf": _printf,
    "Quote": _quote,
    "YAML": _yaml,
    # From the library sprig.
    "dict": lambda budget, *pairs: budget.sized_map(
        {_shown_within(budget, key): value for key, value in zip(pairs[::2], pairs[1::2], strict=True)}
    ),
    "list": lambda budget, *values: budget.sized_list(values),
    "default": lambda default, value=None: value if _true(value) else default,
    "ternary": lambda positive, negative, condition: positive if condition else negative,
    "quote": lambda *values: " ".join(quoted(_shown(one)) for one in values if one is not None),
    "toString": _shown,
    "toJson": lambda value: orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode(),
    "int": _number,
    "int64": _number,
    "add": lambda *values: sum(map(_number, values)),
    "add1": lambda value: _number(value) + 1,
    "sub": lambda left, right: _number(left) - _number(right),
    "mul": lambda left, right: _number(left) * _number(right),
    "div": _divided,
    "mod": _remainder,
    "max": lambda *values: max(map(_number, values)),
    "min": lambda *values: min(map(_number, values)),
    "lower": lambda value: _shown(value).lower(),
    "upper": lambda value: _shown(value).upper(),
    "trim": lambda value: _shown(value).strip(),
    "trimPrefix": lambda part, value: value.removeprefix(part),
    "trimSuffix": lambda part, value: value.removesuffix(part),
    "hasPrefix": lambda part, value: value.startswith(part),
    "hasSuffix": lambda part, value: value.endswith(part),
    "contains": lambda part, value: part in value,
    "replace": _replaced,
    "join": _joined,
    "hasKey": lambda value, key: key in value,
    "get": lambda value, key: value.get(key, ""),
}
_MAKING: Final = ("dict", "list")  # get the budget, because they create values with a size

# Nanoseconds per character of the arguments; a function that is missing here does not read them.
_SHOWN: Final = 80
_WEIGHTS: Final[dict[str, int]] = {
    **dict.fromkeys(("trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix"), 2),
    **dict.fromkeys(("toJson", "YAML", "Quote", "replace"), 5),
    **dict.fromkeys(("lower", "upper", "contains"), 10),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "hasKey", "get"), 20),
    **dict.fromkeys(("print", "toString", "join", "int", "int64", "add", "add1", "sub", "mul"), _SHOWN),
    **dict.fromkeys(("div", "mod", "max", "min"), _SHOWN),
    **dict.fromkeys(("printf", "quote"), 200),  # may escape each character
}
