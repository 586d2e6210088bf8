"""Which changes become events of a watch, and of which type."""

from __future__ import annotations

from rewound.actors.selectors import LabelSelector, matcher
from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.selection import Selection
from rewound.journal.records import Event
from tests.cases import cases
from tests.gateway.watch.memory_hub import MemoryHub, memory_hub


def changed(base: MemoryHub, *steps: dict[str, str] | None) -> tuple[Event, Changes]:
    """The last of these changes of one object; None deletes it."""
    for labels in steps:
        event = base.event("a", removed=True) if labels is None else base.event("a", **labels)
        base.commit([event])
    return event, Changes(base.journal, base.type_id, base.feed.head)


IN, OUT = {"app": "web"}, {"app": "db"}


@cases(
    ("steps", "expected"),
    [
        ((IN,), "ADDED"),
        ((OUT,), None),
        ((IN, IN), "MODIFIED"),
        ((OUT, IN), "ADDED"),
        ((IN, OUT), "DELETED"),
        ((OUT, OUT), None),
        ((IN, None), "DELETED"),
        ((OUT, None), None),
        ((IN, OUT, None), None),
        ((IN, None, IN), "ADDED"),
        ((IN, None, OUT), None),
    ],
)
async def test_event_type_depends_on_the_match_before_and_after(
    steps: tuple[dict[str, str] | None, ...], expected: str | None
) -> None:
    async with memory_hub() as base:
        change = changed(base, *steps)
        found = Selection(match=matcher(LabelSelector.parse("app=web"), None)).select(*change)
        assert (found[0] if found else None) == expected
        if found is not None:
            assert b'"app":"web"' in found[1]
            assert b'"resourceVersion":"%d"' % change[0].offset in found[1]


@cases(
    ("steps", "expected"),
    [((IN,), "ADDED"), ((IN, OUT), "MODIFIED"), ((IN, None), "DELETED"), ((IN, None, OUT), "ADDED")],
)
async def test_event_type_without_a_selector(steps: tuple[dict[str, str] | None, ...], expected: str) -> None:
    async with memory_hub() as base:
        found = Selection().select(*changed(base, *steps))
        assert found is not None
        assert found[0] == expected


async def test_selection_by_namespace_and_name() -> None:
    async with memory_hub() as base:
        change = changed(base, IN)
        assert Selection(name="a").select(*change)
        assert Selection(name="b").select(*change) is None
        assert Selection(namespace="").select(*change)
        assert Selection(namespace="x").select(*change) is None
