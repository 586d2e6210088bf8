"""Label selectors: `app=web,tier in (front,back),!canary,replicas>3`, as Kubernetes reads them.

    selector    := [ requirement { "," requirement } ]
    requirement := [ "!" ] KEY | KEY ("=" | "==" | "!=" | ">" | "<") [ VALUE ]
                 | KEY ("in" | "notin") "(" values ")"
    values      := [ VALUE ] { "," [ VALUE ] }

An empty VALUE is a value too, so `x in ()` selects the label x with an empty value. `in` and
`notin` are operators only where an operator is expected: `in in (in)` is a valid selector. Each requirement has
one of six operators; equality is a set of one value, which makes `x=a`, `x==a` and `x in (a)` the same
selector. The error texts are those of Kubernetes, including the odd `<nil>` where a key
is wrong.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from rewound.actors.errors import BadRequest
from rewound.actors.golang.quoting import quoted_start

IN, NOT_IN, EXISTS, ABSENT, GREATER, LESS = "in", "notin", "exists", "!", ">", "<"

# Kubernetes limits only the size of the request's headers. Compiling this many takes some milliseconds; values, which
# become one set, take less than requirements.
MAX_TERMS = 3000
MAX_VALUES = 50_000

# Nearly all keys and values match this; the checks that say what is wrong are slower.
_PLAIN = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?").fullmatch

_BLANK = " \t\r\n"
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SYMBOLS = frozenset(["==", "!=", "=", "!", "(", ")", ",", "<", ">"])
_OPERATORS = {"in": IN, "=": IN, "==": IN, "notin": NOT_IN, "!=": NOT_IN, ">": GREATER, "<": LESS}
_END = ""
_INT64_MAX = 2**63 - 1
_INTEGER = re.compile("[+-]?[0-9]+")


class LabelRequirement(NamedTuple):
    key: str
    operator: str
    values: tuple[str, ...] = ()  # sorted, each once

    @classmethod
    def checked(cls, key: str, operator: str, values: tuple[str, ...]) -> LabelRequirement:
        """Return a requirement that was not parsed from text. Raises BadRequest if no text could express it."""
        if operator in (IN, NOT_IN) and not values:
            raise _unparsable(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
            )
        if operator in (EXISTS, ABSENT) and values:
            raise _unparsable("values: Invalid value: values set must be empty for exists and does not exist")
        if operator in (GREATER, LESS) and len(values) != 1:
            raise _unparsable(
                "values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required"
            )
        problems = [] if _PLAIN(key) else _key_problems(key)
        if problems:
            raise _unparsable(_invalid("key", key, "; ".join(problems)))
        return _checked(cls(key, operator, values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if value is None:
            return self.operator in (NOT_IN, ABSENT)
        match self.operator:
            case "in":
                return self._names(value)
            case "notin":
                return not self._names(value)
            case ">" | "<":
                return self._compares(value)
        return self.operator == EXISTS

    def _names(self, value: str) -> bool:
        at = bisect_left(self.values, value)  # a term of a node selector may have thousands of values
        return at < len(self.values) and self.values[at] == value

    def _compares(self, value: str) -> bool:
        number = _integer(value)
        if number is None:
            return False
        bound = int(self.values[0])
        return number > bound if self.operator == GREATER else number < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case ">" | "<":
                return f"{self.key}{self.operator}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == IN else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


class LabelSelector(msgspec.Struct, frozen=True):
    """All requirements must hold; a selector without requirements selects everything."""

    requirements: tuple[LabelRequirement, ...]  # sorted, each once

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        # There is a comma before every requirement and value but the first.
        if text.count(",") >= MAX_VALUES:
            raise BadRequest(f"a label selector may have at most {MAX_VALUES} values")
        return cls(tuple(sorted(set(_Parser(text).selector()))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class _Parser:
    """A recursive descent parser; the empty token is the end of the text."""

    def __init__(self, text: str) -> None:
        # Without the strip, the pattern would scan trailing blanks again from each of them.
        self._tokens: list[str] = [*(found[1] for found in _TOKEN.finditer(text.strip(_BLANK))), _END]
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        token = self._tokens[self._position]
        # Never move past the end: every further call returns it again.
        if token is not _END:
            self._position += 1
        return token

    def selector(self) -> list[LabelRequirement]:
        requirements: list[LabelRequirement] = []
        while (token := self._peek()) != _END:
            if not _is_word(token) and token != "!":
                raise BadRequest(f"found '{token}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            if len(requirements) > MAX_TERMS:
                raise BadRequest(f"a label selector may have at most {MAX_TERMS} requirements")
            self._separator()
        return requirements

    def _separator(self) -> None:
        token = self._take()
        if token == _END:
            return
        if token != ",":
            raise BadRequest(f"found '{token}', expected: ',' or 'end of string'")
        following = self._peek()
        if not _is_word(following) and following != "!":
            raise BadRequest(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> LabelRequirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._key()
        if negated:
            return LabelRequirement(key, ABSENT)
        if self._peek() in (_END, ","):
            return LabelRequirement(key, EXISTS)
        written = self._take()
        operator = _OPERATORS.get(written)
        if operator is None:
            raise _unparsable(f"found '{written}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if written in ("in", "notin") else {self._value()}
        return _checked(LabelRequirement(key, operator, tuple(sorted(values))))

    def _key(self) -> str:
        key = self._take()
        if not _is_word(key):
            raise _unparsable(f"found '{key}', expected: identifier")
        problems = [] if _PLAIN(key) else _key_problems(key)
        if problems:
            raise _unparsable(_invalid("<nil>", key, "; ".join(problems)))
        return key

    def _value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._take()
        if not _is_word(token):
            raise _unparsable(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> set[str]:
        token = self._take()
        if token != "(":
            raise _unparsable(f"found '{token}' expected: '('")
        following = self._peek()
        if not _is_word(following) and following not in (",", ")"):
            raise _unparsable(f"found '{following}', expected: ',', ')' or identifier")
        return self._values()

    def _values(self) -> set[str]:
        """Return the values between the parentheses; an empty position, also the first or last, is an empty value."""
        values: set[str] = set()
        while True:
            word = _is_word(self._peek())
            values.add(self._take() if word else "")
            token = self._take()
            if token == ")":
                return values
            if token != ",":
                expected = "',' or ')'" if word else "',', or identifier"
                raise _unparsable(f"found '{token}', expected: {expected}")


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


def _unparsable(why: str) -> BadRequest:
    return BadRequest(f"unable to parse requirement: {why}")


def _checked(requirement: LabelRequirement) -> LabelRequirement:
    problems: list[str] = []
    if requirement.operator in (GREATER, LESS) and _integer(requirement.values[0]) is None:
        problems.append(
            _invalid(
                "values[0]", requirement.values[0], "for 'Gt', 'Lt' operators, the value must be an integer"
            )
        )
    for index, value in enumerate(requirement.values):
        found = [] if _PLAIN(value) else _value_problems(value)
        if found:
            problems.append(_invalid(f"values[{index}][{requirement.key}]", value, "; ".join(found)))
    if problems:
        raise _unparsable(problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]")
    return requirement


def _integer(text: str) -> int | None:
    """Parse a decimal 64-bit integer, or return None. Whether it is a valid label value is checked elsewhere."""
    if not _INTEGER.fullmatch(text):
        return None
    # A label value has at most 63 digits, which bounds the cost of the conversion.
    number = int(text[:64])
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None


def _invalid(field: str, value: str, why: str) -> str:
    return f"{field}: Invalid value: {quoted_start(value)}: {why}"


# The rules of names are imported for names that are not plain: commands that select nothing start without them.


def _key_problems(key: str) -> list[str]:
    from rewound.actors.kinds.validation import qualified_name

    return qualified_name(key)


def _value_problems(value: str) -> list[str]:
    from rewound.actors.kinds.validation import label_value

    return label_value(value)
