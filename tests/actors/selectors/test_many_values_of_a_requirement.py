"""A requirement with thousands of values costs an object about as much as one with few."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.declaration.meta import LabelMatcher
from rewound.actors.scheduler.matching import selector_of
from rewound.actors.selectors.nodes import NodeSelector

VALUES = [f"v{number:05}" for number in range(10_000)]


class CountingText(str):
    """Counts the values that it is compared with."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        self.compared += 1
        return super().__eq__(other)

    def __lt__(self, other: str) -> bool:
        self.compared += 1
        return super().__lt__(other)

    def __gt__(self, other: str) -> bool:
        self.compared += 1
        return super().__gt__(other)

    __hash__ = str.__hash__


def expressions(operator: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "tier", "operator": operator, "values": VALUES}]}


def matchers(operator: str) -> list[Any]:
    """The compiled forms of a selector for nodes, for pods and for objects of controllers."""
    node = NodeSelector.compile({"nodeSelectorTerms": [expressions(operator)]})
    return [
        lambda labels: node.matches("a", labels),
        selector_of(expressions(operator)).matches,
        LabelMatcher(expressions(operator)).matches,
    ]


def test_match_compares_few_of_many_values() -> None:
    for text, has in {
        "v00000": True,
        "v09999": True,
        "v05000": True,
        "w": False,
        "": False,
        "v1": False,
    }.items():
        for operator, expected in {"In": has, "NotIn": not has}.items():
            for matches in matchers(operator):
                value = CountingText(text)
                assert matches({"tier": value}) is expected, (text, operator)
                assert value.compared <= 20, (text, operator)
