"""`rewound record --audit-log`: recorded events have the user, verb and manager of the server's own journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from trio.testing import MockClock

from rewound.journal.records import Event
from rewound.recording.record import authors as authors_module
from rewound.recording.record import recorder as recorder_module
from rewound.recording.record.writer import original_version
from rewound.rewind.page.refused import refused_in
from tests.actors.object_store import memory_folder
from tests.gateway.audit.auditing import audited, rules
from tests.recording.record.random_writes import USERS, RandomWrites
from tests.recording.record.recording import opened, recording


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


def who(event: Event) -> tuple[str, str, str, str]:
    return event.user, event.verb, event.manager, event.name


@pytest.mark.parametrize("level", ["RequestResponse", "Metadata"])
async def test_same_authors_as_the_server(
    folder: Path, autojump_clock: MockClock, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The virtual clock advances while the server's thread writes its log: nothing may time out.
    monkeypatch.setattr(recorder_module, "LOG_SECONDS", float("inf"))
    monkeypatch.setattr(authors_module, "NEAR", float("inf"))
    monkeypatch.setattr(authors_module, "PENDING_SECONDS", float("inf"))
    blocking = {"audit_log_mode": "blocking"}
    async with audited(rules(f"level: {level}"), blocking) as server:
        assert server.api.store is not None
        log = str(server.path)
        async with recording(server.api, folder / "out", with_secrets=True, audit_log=log) as (recorder, _):
            writes = RandomWrites(server.api, Random(7), pause=2)
            await writes.run(80)
        with server.api.store.journal.read() as view:
            written = {one.offset: one for one in view.all_events(0)}
    async with opened(folder / "out") as journal:
        with journal.read() as view:
            versions = {one: int(original_version(view, one.offset) or 0) for one in view.all_events(0)}
    same, different = [], []
    for event, version in versions.items():
        if version in written and written[version].user in USERS:
            (same if who(event) == who(written[version]) else different).append(event)
    assert len(same) > 50
    if level == "RequestResponse":
        assert [(who(one), who(written[versions[one]])) for one in different] == []
        # This dialect responds to a deletecollection without naming what it deleted.
        assert {one.verb for one in same if "user guessed" in one.reason} <= {"deletecollection"}
    # A log of level Metadata does not have all authors: the recording marks the guesses.
    assert [one for one in different if "guessed" not in one.reason and one.user != "recorded"] == []
    assert len(list(refused_in(folder / "out"))) == writes.refused
    assert recorder.authors is not None and not recorder.authors.unreadable
