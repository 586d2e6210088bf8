"""A folder whose records have valid checksums but invalid contents: opening it and `verify` report which one is
wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

from rewound.journal import Event, Journal, keys, records
from rewound.journal.errors import CannotOpen, IncompleteFolder
from rewound.journal.repair import verify
from rewound.journal.repair.recover import recover
from rewound.journal.tail import TAIL
from tests.gateway.journal_commands import run_journal
from tests.journal.model import Model

UNCOMPRESSED = 2  # the layout of events with facts and body as they are


def with_event(path: Path, event: Event) -> None:
    """A journal with one more event, with any contents."""
    journal = Journal.open(path)
    journal.register_type("configmaps")
    databases = journal.environment.databases
    key = keys.pack_offset(event.offset)

    packed: bytes = msgpack.packb(list(event[1:]))
    check = records._event_check(event.offset, UNCOMPRESSED, packed)

    def put(txn: Any) -> None:
        value = bytes((UNCOMPRESSED,)) + check.to_bytes(4, "big") + packed
        txn.put(key, value, db=databases.events)

    journal.environment.write(put, event.offset)
    journal.close()


EVENT = Event(5, 1, "create", "default", "a", 0, False, 10, "u", "m", b"", b"{}")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"time": "now"}, "event 5 has a wrong field (time: expected a number, found the text 'now')"),
        ({"offset": 2**64 - 1}, "(offset: 18446744073709551615 is not between 1 and"),
        ({"body": "{}"}, "event 5 has a wrong field (body: expected bytes, found the text '{}')"),
        ({"removed": 3}, "event 5 has a wrong field (removed: expected true or false, found the number 3)"),
        ({"previous": 8}, "event 5 has a wrong field (previous: 8 is not between 0 and 4)"),
    ],
)
def test_wrong_field_of_an_event(wrong: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = tmp_path / "data" / "journal"
    with_event(path, EVENT._replace(**wrong))
    with pytest.raises(CannotOpen) as found:
        Journal.open(path)
    assert why in str(found.value) and "rewound journal verify" in str(found.value)
    journal = Journal.open(path, readonly=True, check_tail=False)
    with journal.read() as view:
        report = verify.verify(view)
    journal.close()
    assert any(why in one for one in report.differences), report.differences


def test_wrong_event_before_the_newest_ones_is_damage_when_it_is_read(tmp_path: Path, model: Model) -> None:
    """Opening checks only the newest events."""
    path = tmp_path / "journal"
    with_event(path, EVENT._replace(offset=1, body="{}", time=0))
    journal = Journal.open(path, check_tail=False)
    model.put("early")
    journal.append([model.put(f"n{number}") for number in range(TAIL + 1)])
    journal.close()
    journal = Journal.open(path)
    with pytest.raises(records.Damaged, match="event 1 has a wrong field"), journal.read() as view:
        view.event(1)
    with journal.read() as view:
        assert [event.offset for event in view.newer_events(0, 3, 1 << 20)] == [2, 3, 4]
    journal.close()


def test_events_of_a_type_without_a_name(tmp_path: Path, model: Model) -> None:
    folder = tmp_path / "data"
    journal = Journal.open(folder / "journal")
    journal.register_type("configmaps")
    journal.append([model.put("a", type_id=9)])
    with (
        pytest.raises(records.Damaged, match="there are events of type 9, which has no name"),
        journal.read() as view,
    ):
        view.check_type_names()
    journal.close()
    verified = run_journal("verify", folder)
    assert (
        verified.code == 1 and "there are events of type 9, which has no name" in verified.out + verified.err
    )


def test_wrong_timelines(tmp_path: Path, model: Model) -> None:
    folder = tmp_path / "data"
    journal = Journal.open(folder / "journal")
    journal.register_type("configmaps")
    journal.append([model.put("a")])
    journal.put_meta({keys.TIMELINES: msgpack.packb("main")})
    journal.close()
    why = "timelines: expected a list, found the text 'main'"
    with pytest.raises(IncompleteFolder) as found:
        Journal.open(folder / "journal")
    assert why in str(found.value) and "rewound journal recover" in str(found.value)
    verified = run_journal("verify", folder)
    assert verified.code == 1 and why in verified.out + verified.err
    done = recover(folder / "journal", tmp_path / "recovered")
    assert any("timelines is wrong, and left out" in one for one in done.damage)
    Journal.open(tmp_path / "recovered").close()
