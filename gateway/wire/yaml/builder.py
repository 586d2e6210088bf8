"""Parser events to one plain value, with a stack of its own.

A few bytes of YAML can stand for much work, and each way is closed here: nesting is limited and needs no
recursion, and what aliases add counts against a budget. Duplicate keys are reported by the line of their value, as
Go's readers do, and the last one wins. Explicit keys stand before merged ones (`<<`), and an earlier source of a merge
before a later one. Keys come out sorted: what is told about fields of a body is told in that order.

Rejected: PyYAML's own constructors. They recurse, share aliased objects, and read YAML differently from Go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

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

from actors.kinds.schema.problems import Problems
from actors.kinds.values.go_format import quoted
from gateway.wire.yaml.failure import fail_at
from gateway.wire.yaml.scalars import Scalar, resolve
from gateway.wire.yaml.tags import COLLECTIONS, MERGE, short, tagged

# What JSON bodies may nest, and what can be encoded again; manifests stay below 60.
DEPTH: Final = 200
# Aliases may add no more than the largest body could have spelled out.
ALIAS_BUDGET: Final = 3 * 1024 * 1024
NODE_WEIGHT: Final = 16  # bytes of the smallest field, about


@dataclass(slots=True)
class _Anchored:
    value: Any
    weight: int
    height: int


@dataclass(slots=True)
class _Frame:
    """A mapping or sequence that is still open."""

    container: dict[str, Any] | list[Any]
    anchor: str | None
    before: int  # the weight of everything before it
    line: int
    height: int = 1
    key: str | None = None  # of a mapping: the key whose value comes next
    merge: ScalarEvent | None = None  # of a mapping: the `<<` whose value comes next
    sources: list[dict[str, Any]] = field(default_factory=list)  # what `<<` brought

    @property
    def awaits_key(self) -> bool:
        return type(self.container) is dict and self.key is None and self.merge is None


class Builder:
    __slots__ = ("_anchors", "_budget", "_open", "_weight", "problems", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.problems = Problems()
        self._open: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None while the anchored node is open
        self._weight = 0
        self._budget = ALIAS_BUDGET

    def build(self, next_event: Callable[[], Any]) -> None:
        """Reads one document to the end of the stream."""
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
        if text == "<<" and self._open and self._open[-1].awaits_key and _merges(event):
            self._open[-1].merge = event
            return
        value = _resolved(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, weight, 0)
        self._deliver(event, value, 0)

    def _start(self, event: Any, container: dict[str, Any] | list[Any]) -> None:
        if event.tag is not None and event.tag not in COLLECTIONS:
            fail_at(event, f"unknown tag {short(event.tag)}")
        if len(self._open) >= DEPTH:
            fail_at(event, f"nested deeper than {DEPTH} levels")
        if self._open and self._open[-1].awaits_key:
            fail_at(event, "a map key must be a scalar")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Frame(container, event.anchor, self._weight, _line(event)))
        self._weight += NODE_WEIGHT

    def _end(self, event: Any) -> None:
        frame = self._open.pop()
        container = frame.container
        if isinstance(container, dict):
            for source in frame.sources:
                for key, value in source.items():
                    container.setdefault(key, value)
            container = dict(sorted(container.items()))
        if frame.anchor is not None:
            self._anchors[frame.anchor] = _Anchored(container, self._weight - frame.before, frame.height)
        self._deliver(event, container, frame.height, frame.line)

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
        if len(self._open) + anchored.height > DEPTH:
            fail_at(event, f"nested deeper than {DEPTH} levels")
        self._weight += anchored.weight
        self._deliver(event, _copied(anchored.value), anchored.height)

    def _deliver(self, event: Any, value: Any, height: int, line: int | None = None) -> None:
        """A finished value goes where it belongs: it is an item, a key, a key's value, or the document."""
        if not self._open:
            self.value = value
            return
        frame = self._open[-1]
        if height >= frame.height:
            frame.height = height + 1
        container = frame.container
        if isinstance(container, list):
            container.append(value)
        elif frame.key is not None:
            if frame.key in container:
                self._report(frame.key, _line(event) if line is None else line)
            container[frame.key] = value
            frame.key = None
        elif frame.merge is not None:
            frame.sources += _sources(frame.merge, value)
            frame.merge = None
        else:
            frame.key = self._key(event, value)

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

    def _report(self, key: str, line: int) -> None:
        self.problems.add(f"line {line}: key {quoted(key)} already set in map")


def _line(event: Any) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _merges(event: ScalarEvent) -> bool:
    return bool(event.implicit[0]) if event.tag is None else event.tag == MERGE


def _resolved(event: ScalarEvent) -> Scalar:
    try:
        if event.tag is not None:
            return tagged(event.tag, event.value)
        return resolve(event.value) if event.implicit[0] else str(event.value)
    except ValueError as error:
        fail_at(event, str(error))


def _sources(merge: ScalarEvent, value: Any) -> list[dict[str, Any]]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        fail_at(merge, "map merge requires map or sequence of maps as the value")
    return sources


def _copied(value: Any) -> Any:
    """Each alias gets containers of its own, because whoever receives a body may change it."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
