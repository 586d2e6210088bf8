"""Reads a YAML body: checks the bytes, lets libyaml parse them, and builds one JSON value from the parser's events."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from rewound.actors.golang.json import DEEPEST
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.schema.exact_decoder import Problems
from rewound.actors.runtime.large_work import MAX_STORED_VALUES, too_many_values
from rewound.actors.runtime.time_limit import check_time
from rewound.gateway.wire.yaml.loaded import Loaded, YamlError, fail_at
from rewound.gateway.wire.yaml.scalars import NULLS, Scalar, is_timestamp, resolve

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(raw: bytes, most_values: int | None = None) -> Loaded:
    check(raw)
    parser, builder = _Parser(raw), Builder(MAX_STORED_VALUES if most_values is None else most_values)
    try:
        builder.build(parser.get_event)
    except yaml.MarkedYAMLError as error:
        raise _refusal(error) from None
    finally:
        parser.dispose()
    return Loaded(builder.value, builder.problems.texts())


def _refusal(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "the document cannot be read"
    if mark is None:
        return YamlError(problem)
    return YamlError(problem, mark.line + 1, mark.column + 1)


# No client needs any, because custom tags are refused.
MAX_TAG_DIRECTIVES: Final = 16

_directive = re.compile("(?:^|[\r\n\x85\u2028\u2029])%TAG")
_forbidden = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").search


def check(raw: bytes) -> None:
    """Check bytes before they are parsed: UTF-8 without control characters, and few directives.

    The parser would also accept UTF-16, in which this module could not find directives. It compares each %TAG with
    all before it: a hundred thousand of them keep it busy for twenty seconds, in one call that cannot be interrupted.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError("invalid UTF-8", *_position(raw[: error.start].decode())) from None
    bad = _forbidden(text)
    if bad:
        position = _position(text[: bad.start()])
        raise YamlError(f"control characters are not allowed (U+{ord(bad[0]):04X})", *position)
    if text.count("%TAG") > MAX_TAG_DIRECTIVES and len(_directive.findall(text)) > MAX_TAG_DIRECTIVES:
        raise YamlError(f"more than {MAX_TAG_DIRECTIVES} %TAG directives")


def _position(before: str) -> tuple[int, int]:
    """Line and column, counted from 1, at the end of a text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


# Aliases may add no more than the largest body could contain without them.
ALIAS_BUDGET: Final = 3 * 1024 * 1024
NODE_WEIGHT: Final = 16  # about the bytes of the smallest field


@dataclass(slots=True)
class _Anchored:
    value: Any
    weight: int
    height: int


@dataclass(slots=True)
class _Container:
    """A mapping or sequence that is still open."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    weight_before: int  # number of values before it
    line: int
    height: int = 1
    key: str | None = None  # in a mapping: the key whose value comes next
    merge: ScalarEvent | None = None  # in a mapping: the `<<` whose value comes next
    sources: list[dict[str, Any]] = field(default_factory=list)  # values of `<<`

    @property
    def awaits_key(self) -> bool:
        return type(self.value) is dict and self.key is None and self.merge is None


class Builder:
    """Builds one JSON value from parser events, with an explicit stack instead of recursion.

    A few bytes of YAML can cause much work, so nesting is limited, what aliases add has a budget, and parsing ends at
    the first value beyond the limit: the parser takes some microseconds for each.

    Duplicate keys are reported with the line of their value, as Go does, and the last one wins. Explicit keys take
    precedence over merged ones (`<<`), and an earlier merge source over a later one. Keys are sorted, so that
    warnings and errors about fields of a body have that order.

    Rejected: PyYAML's own constructors. They recurse, share aliased objects, and interpret YAML differently from Go.
    """

    __slots__ = ("_anchors", "_budget", "_most_values", "_open", "_values", "_weight", "problems", "value")

    def __init__(self, most_values: int) -> None:
        self.value: Any = None
        self.problems = Problems()
        self._open: list[_Container] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None while the anchored node is open
        self._weight = 0
        self._budget = ALIAS_BUDGET
        self._values, self._most_values = 0, most_values

    def build(self, next_event: Callable[[], Any]) -> None:
        """Consume all events; a second document is an error."""
        documents = 0
        while True:
            event = next_event()
            kind = type(event)
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent:
                self._start(event, {})
            elif kind is SequenceStartEvent:
                self._start(event, [])
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._end(event)
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                documents += 1
                if documents > 1:
                    fail_at(event, "a second document: send one object a request")
            elif kind is StreamEndEvent:
                return

    def _scalar(self, event: ScalarEvent) -> None:
        text = event.value
        weight = NODE_WEIGHT + len(text)
        self._weight += weight
        if text == "<<" and self._open and self._open[-1].awaits_key and _is_merge_key(event):
            self._open[-1].merge = event
            return
        value = _scalar_value(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, weight, 0)
        self._place(event, value, 0)

    def _start(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if event.tag is not None and event.tag not in COLLECTIONS:
            fail_at(event, f"unknown tag {short_tag(event.tag)}")
        if len(self._open) >= DEEPEST:
            fail_at(event, f"nested deeper than {DEEPEST} levels")
        if self._open and self._open[-1].awaits_key:
            fail_at(event, "a map key must be a scalar")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Container(value, event.anchor, self._weight, _line(event)))
        self._weight += NODE_WEIGHT

    def _end(self, event: Any) -> None:
        check_time()
        container = self._open.pop()
        value = container.value
        if isinstance(value, dict):
            for source in container.sources:
                for key, merged in source.items():
                    value.setdefault(key, merged)
            value = dict(sorted(value.items()))
        if container.anchor is not None:
            weight = self._weight - container.weight_before
            self._anchors[container.anchor] = _Anchored(value, weight, container.height)
        self._place(event, value, container.height, container.line)

    def _alias(self, event: AliasEvent) -> None:
        name = event.anchor
        if name not in self._anchors:
            fail_at(event, f"unknown anchor '{name}' referenced")
        anchored = self._anchors[name]
        if anchored is None:
            fail_at(event, f"anchor '{name}' value contains itself")
        self._budget -= anchored.weight
        if self._budget < 0:
            fail_at(event, "document contains excessive aliasing")
        if len(self._open) + anchored.height > DEEPEST:
            fail_at(event, f"nested deeper than {DEEPEST} levels")
        self._weight += anchored.weight
        self._place(event, _copy(anchored.value), anchored.height)

    def _place(self, event: Any, value: Any, height: int, line: int | None = None) -> None:
        """Put a finished value into the open container, as item, key or value; without one it is the document."""
        if not self._open:
            self.value = value
            return
        container = self._open[-1]
        if height >= container.height:
            container.height = height + 1
        into = container.value
        if isinstance(into, list):
            self._count_value()
            into.append(value)
        elif container.key is not None:
            self._count_value()
            if container.key in into:
                self._report_duplicate(container.key, _line(event) if line is None else line)
            into[container.key] = value
            container.key = None
        elif container.merge is not None:
            container.sources += _merge_sources(container.merge, value)
            container.merge = None
        else:
            container.key = self._key(event, value)

    def _count_value(self) -> None:
        """Count a value. What aliases add is not counted here: it has a budget of its own."""
        self._values += 1
        if self._values > self._most_values:
            raise too_many_values(f"more than {self._most_values}", self._most_values)

    def _key(self, event: Any, value: Any) -> str:
        if isinstance(value, str):
            key = value
        elif isinstance(value, bool):
            key = "true" if value else "false"
        elif isinstance(value, int | float):
            key = str(value)
        else:
            fail_at(event, "a map key must not be null" if value is None else "a map key must be a scalar")
        return key

    def _report_duplicate(self, key: str, line: int) -> None:
        self.problems.add(f"line {line}: key {quoted(key)} already set in map")


def _line(event: Any) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _is_merge_key(event: ScalarEvent) -> bool:
    return bool(event.implicit[0]) if event.tag is None else event.tag == MERGE


def _scalar_value(event: ScalarEvent) -> Scalar:
    try:
        if event.tag is not None:
            return resolve_tagged(event.tag, event.value)
        return resolve(event.value) if event.implicit[0] else str(event.value)
    except ValueError as error:
        fail_at(event, str(error))


def _merge_sources(merge: ScalarEvent, value: Any) -> list[dict[str, Any]]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        fail_at(merge, "map merge requires map or sequence of maps as the value")
    return sources


def _copy(value: Any) -> Any:
    """Copy a value for each alias, because later steps change the body in place."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


_CORE: Final = "tag:yaml.org,2002:"
# The tag "!" means: do not guess the type.
_NON_SPECIFIC: Final = "!"
COLLECTIONS: Final = frozenset({_CORE + "map", _CORE + "seq", _NON_SPECIFIC})
MERGE: Final = _CORE + "merge"


def resolve_tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with a tag such as !!str or !!int.

    Any other tag is refused, never ignored: raises ValueError with a message for the client.
    """
    read = _READERS.get(tag)
    if read is None:
        raise ValueError(f"unknown tag {short_tag(tag)}")
    try:
        return read(text)
    except TypeError:
        raise ValueError(f"cannot decode `{text[:64]}` as a {short_tag(tag)}") from None


def short_tag(tag: str) -> str:
    abbreviated = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
    return abbreviated[:64]


def _null(text: str) -> None:
    if text not in NULLS:
        raise TypeError


def _bool(text: str) -> bool:
    value = resolve(text)
    if not isinstance(value, bool):
        raise TypeError
    return value


def _int(text: str) -> int:
    value = resolve(text)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _float(text: str) -> int | float:
    value = resolve(text)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    return value


def _timestamp(text: str) -> str:
    if not is_timestamp(text):
        raise TypeError
    return text


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except UnicodeDecodeError:
        raise ValueError("!!binary value is not UTF-8 text: send it as base64 in a plain string") from None
    except binascii.Error:
        raise ValueError("!!binary value contains invalid base64 data") from None


_READERS: Final[dict[str, Callable[[str], Scalar]]] = {
    _NON_SPECIFIC: str,
    _CORE + "str": str,
    _CORE + "null": _null,
    _CORE + "bool": _bool,
    _CORE + "int": _int,
    _CORE + "float": _float,
    _CORE + "timestamp": _timestamp,
    _CORE + "binary": _binary,
}
