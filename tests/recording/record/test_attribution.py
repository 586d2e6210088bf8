"""A recording names the field manager of a change only if managedFields show it; guesses are marked."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from trio.testing import MockClock

from rewound.journal.log import Journal
from rewound.journal.records import GUESSED, Event
from rewound.recording.record.attribution import UNKNOWN, Writer, writer_of
from tests.cases import cases
from tests.gateway.api import Api, config_map, served
from tests.gateway.journal_commands import run_journal
from tests.recording.record.recording import recording

Document = dict[str, Any]
FIRST, LATER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"
SECOND = 1_000_000
SECONDS = {FIRST: 1767225601 * SECOND, LATER: 1767225609 * SECOND}


def entry(manager: str, *fields: str, time: str = FIRST, **more: str) -> Document:
    owned: Document = {f"f:{one}": {} for one in fields}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:data": owned}, **more}


def document(*entries: Document, **more: Any) -> Document:
    metadata = {"name": "a", "creationTimestamp": FIRST, "managedFields": list(entries)}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, **more}


A, B = entry("a", "x"), entry("b", "y")


@cases(
    ("before", "after", "expected"),
    [
        (None, document(A), Writer("a", SECONDS[FIRST])),
        (None, document(A, entry("b", "y", time=LATER)), Writer("b", SECONDS[LATER])),
        (None, document(A, B), Writer(UNKNOWN, SECONDS[FIRST], guessed=True)),
        (None, document(), Writer("", SECONDS[FIRST])),
        # The writer has the newest time, though its entry is not the last.
        (document(A, B), document(entry("a", "x", time=LATER), B), Writer("a", SECONDS[LATER])),
        # A new entry within the same second.
        (document(A), document(A, B), Writer("b", SECONDS[FIRST])),
        (document(B), document(A, B), Writer("a", SECONDS[FIRST])),
        # The same manager applies now.
        (document(A), document(A, {**A, "operation": "Apply"}), Writer("a", SECONDS[FIRST], applied=True)),
        # The writer takes a field from the other, within the same second.
        (document(A, B), document(entry("a", "x", "y")), Writer("a", SECONDS[FIRST])),
        # Fields are only removed, which leaves no trace of the manager.
        (document(A, B), document(A), Writer("b", guessed=True)),
        (document(A, B), document(), Writer(UNKNOWN, guessed=True)),
        # Values change within the second: only one manager wrote in it.
        (document(A, data={"x": "1"}), document(A, data={"x": "2"}), Writer("a", SECONDS[FIRST])),
        (
            document(A, B, data={"x": "1"}),
            document(A, B, data={"x": "2"}),
            Writer(UNKNOWN, SECONDS[FIRST], guessed=True),
        ),
        # One of the two writes the status only.
        (
            document(A, entry("b", "y", subresource="status"), status={"x": "1"}),
            document(A, entry("b", "y", subresource="status"), status={"x": "2"}),
            Writer("b", SECONDS[FIRST]),
        ),
        (
            document(A, entry("b", "y", subresource="status"), data={"x": "1"}),
            document(A, entry("b", "y", subresource="status"), data={"x": "2"}),
            Writer("a", SECONDS[FIRST]),
        ),
        # Several managers wrote since: the list after a gap.
        (
            document(A, B),
            document(entry("a", "x", time="2026-01-01T00:00:05Z"), entry("b", "y", time=LATER)),
            Writer("b", SECONDS[LATER], guessed=True),
        ),
        # Nobody is known to delete.
        (document(A), document(A, metadata={"deletionTimestamp": LATER}), Writer("", deletes=True)),
    ],
)
def test_writer_of_a_change_is_found_in_managed_fields(
    before: Document | None, after: Document, expected: Writer
) -> None:
    assert writer_of(before, after, SECONDS[FIRST] + SECOND // 2) == expected


def test_values_that_change_long_after_the_newest_time_have_no_known_writer() -> None:
    before, after = document(A, data={"x": "1"}), document(A, data={"x": "2"})
    assert writer_of(before, after, SECONDS[LATER]) == Writer(UNKNOWN, guessed=True)


async def test_recording_names_the_manager_of_the_server_or_marks_a_guess(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Four managers write one object at random, most within one second."""
    chance = random.Random(31)
    folder = tmp_path / "recorded"
    async with served(dialect="kubernetes") as api:
        async with recording(api, folder):
            await api.create("configmaps", config_map("a", x="0"), fieldManager="m0")
            for _ in range(200):
                await write_one(api, chance)
            await api.delete("configmaps", "a")
        assert api.store is not None
        there = events_of(api.store.journal)
    journal = Journal.open(folder / "journal", readonly=True)
    here = events_of(journal)
    journal.close()
    assert [one.offset for one in here] == [one.offset for one in there]
    wrong = [(a.manager, b.manager) for a, b in zip(there, here, strict=True) if a.manager != b.manager]
    sure = [(a, b) for a, b in zip(there, here, strict=True) if not b.is_guess]
    assert all(a.manager == b.manager or b.removed for a, b in sure), wrong
    changed = [b for before, b in pairwise(here) if managed(before) != managed(b) and not b.removed]
    removals = sum(1 for one in here if one.is_guess)
    assert len(changed) > 100 and removals < 100
    assert {one.reason for one in here} == {"", GUESSED}
    assert here[-1].manager == "" and here[-1].removed
    guess = next(one for one in here if one.is_guess and one.manager != UNKNOWN)
    shown = run_journal("show", "--data-dir", str(folder), str(guess.offset), "-o", "json").out
    assert orjson.loads(shown)["guessed"] is True
    assert (
        f"{guess.manager} (guessed)"
        in run_journal("history", "--data-dir", str(folder), "configmaps", "default/a").out
    )


async def write_one(api: Api, chance: random.Random) -> None:
    manager, key, value = f"m{chance.randrange(4)}", f"k{chance.randrange(5)}", str(chance.randrange(100))
    path = api.path("configmaps", "default", "a")
    form = chance.choice(["merge", "apply", "remove"])
    body: Document = {"data": {key: value if form != "remove" else None}}
    options = {"fieldManager": manager}
    if form == "apply":
        body |= {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        options["force"] = "true"
    kind = "application/apply-patch+yaml" if form == "apply" else "application/merge-patch+json"
    response = await api.ask("PATCH", path, orjson.dumps(body), headers={"content-type": kind}, **options)
    response.expect(200)


def events_of(journal: Journal) -> list[Event]:
    with journal.read() as view:
        return list(view.history(journal.type_id("configmaps"), "default", "a"))


def managed(event: Event) -> Any:
    return orjson.loads(event.body)["metadata"].get("managedFields")
