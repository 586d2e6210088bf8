"""When a client reads the condition Established, the kind is already served."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from rewound.actors.store import committer as slow_disk
from rewound.journal.log import Journal
from tests.api.custom.kinds import DEFINITIONS, NAME, WIDGETS, definition, until
from tests.gateway.api import served


async def test_kind_is_served_when_established_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a slow disk, where a worker thread commits and reads see the commit before the feed does."""
    seen: list[tuple[bool, int]] = []  # established, and the status of a list of the kind
    write, token = Journal.write, trio.lowlevel.current_trio_token()

    async def look() -> None:
        found = await api.ask("GET", f"{DEFINITIONS}/{NAME}")
        if found.status == 200:
            conditions = found.document["status"].get("conditions") or ()
            established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
            seen.append((established, (await api.ask("GET", WIDGETS)).status))

    def write_and_look(self: Journal, *given: Any) -> None:
        write(self, *given)
        if threading.current_thread() is not threading.main_thread():
            trio.from_thread.run(look, trio_token=token)

    async with served() as api:
        monkeypatch.setattr(slow_disk, "SLOW_COMMIT", -1.0)
        monkeypatch.setattr(Journal, "write", write_and_look)
        (await api.ask("POST", DEFINITIONS, definition())).expect(201)  # the next commits run in a thread

        async def is_served() -> bool:
            await look()
            return seen[-1] == (True, 200)

        await until(api, is_served)
        label = {"metadata": {"labels": {"a": "b"}}}
        merge = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", label, headers=merge)).expect(200)
        assert (True, 404) not in seen
        monkeypatch.undo()
