"""The recorded CEL cases: how they are read, and how an outcome is compared with the recorded one."""

from __future__ import annotations

import collections
import json
import pathlib
import re
from typing import Any, NamedTuple

from rewound.actors.names import CLUSTER, Names

GROUP, KIND, PLURAL = "cel.example.com", "Thing", "things"
_MARK = "\x00"  # before numbers, which are sent as they are written: 1.0 and 1 differ
_NUMBER = re.compile(r'"\\u0000([^"]*)"')


class Outcome(NamedTuple):
    status: int
    message: str
    causes: list[tuple[str, str, str]]  # field, reason, message


class Case(NamedTuple):
    id: str
    kind: str  # definition, create or update
    schema: str  # JSON
    object: Any
    old: Any
    expected: Outcome
    unordered: bool

    def difference(self, found: Outcome) -> str:
        """What differs from what is recorded; empty if nothing does."""
        if _agree(found, self.expected, self.unordered):
            return ""
        return (
            f"{self.id}\n  expected {_shown(self.expected, found)}\n  found    {_shown(found, self.expected)}"
        )


def load(folder: pathlib.Path, names: Names) -> list[Case]:
    """The cases, translated from the cluster dialect, in which they are recorded."""
    text = (folder / "cases.json").read_text()
    for theirs, ours in (
        (CLUSTER.extension_prefix, names.extension_prefix),
        (CLUSTER.url_type, names.url_type),
        (CLUSTER.group("apiextensions"), names.group("apiextensions")),
    ):
        text = text.replace(theirs, ours)
    return [_case(**one) for one in json.loads(text, parse_int=_marked, parse_float=_marked)]


def written(value: Any) -> str:
    """JSON with the numbers as they are in the file."""
    return _NUMBER.sub(r"\1", json.dumps(value))


def _case(
    *,
    id: str,
    kind: str,
    schema: Any,
    status: str,
    message: str,
    causes: list[dict[str, str]],
    object: Any = None,
    old: Any = None,
    unordered: bool = False,
    accepted: bool = False,
) -> Case:
    expected = Outcome(int(status.removeprefix(_MARK)), message, [cause(**one) for one in causes])
    return Case(id, kind, written(schema), object, old, expected, unordered)


def cause(field: str = "", reason: str = "", message: str = "") -> tuple[str, str, str]:
    return field, reason, message


def _marked(number: str) -> str:
    return _MARK + number


def _agree(found: Outcome, expected: Outcome, unordered: bool) -> bool:
    if unordered:
        same = collections.Counter(_plain(found).causes) == collections.Counter(_plain(expected).causes)
        return same and found.status == expected.status
    return _plain(found) == _plain(expected)


def _plain(outcome: Outcome) -> Outcome:
    """Without the number in the name of an object's type, which changes each time."""
    causes = [(field, reason, _without_number(text)) for field, reason, text in outcome.causes]
    return Outcome(outcome.status, _without_number(outcome.message), causes)


def _without_number(text: str) -> str:
    return re.sub("selfType[0-9]+", "selfTypeN", text)


def _shown(outcome: Outcome, other: Outcome) -> str:
    """The status, and the causes that the other one has not."""
    causes = [one for one in outcome.causes if one not in other.causes]
    return f"{outcome.status} {outcome.message if not causes else ''} {causes}"
