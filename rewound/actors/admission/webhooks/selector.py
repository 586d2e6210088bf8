"""A namespaceSelector or objectSelector of a webhook, compiled. Equal selectors are the same object."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from rewound.actors.golang.json import unescaped
from rewound.actors.messages import Object

# How many selectors that no webhook has any more stay compiled.
_CACHED: Final = 4096


class Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str]

    def is_met(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        return (self.key in labels) is (self.operator == "Exists")


class Selector:
    """Matches labels. It is compared by identity, so that one evaluation serves all webhooks that have it."""

    __slots__ = ("needed_key", "needed_labels", "requirements")

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self.requirements = requirements
        # No labels match that have none of `needed_labels`, if there are any, nor labels without `needed_key`.
        self.needed_labels: tuple[tuple[str, str], ...] = ()
        self.needed_key = ""
        for one in requirements:
            if one.operator == "In":
                self.needed_labels = tuple((one.key, value) for value in one.values)
                return
        self.needed_key = next((one.key for one in requirements if one.operator == "Exists"), "")

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(one.is_met(labels) for one in self.requirements)


def compile_selector(stored: Object | None) -> Selector | None:
    """None for a selector that matches everything."""
    return _compile(unescaped(stored, option=orjson.OPT_SORT_KEYS)) if stored else None


@lru_cache(maxsize=_CACHED)
def _compile(stored: bytes) -> Selector | None:
    selector = orjson.loads(stored)
    requirements = tuple(
        Requirement(key, "In", frozenset((value,)))
        for key, value in (selector.get("matchLabels") or {}).items()
    ) + tuple(
        Requirement(one["key"], one["operator"], frozenset(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    )
    return Selector(requirements) if requirements else None
