"""The informer of the JavaScript client gets every event once over HTTP/2, through a restart of the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.clients.program import program
from tests.clients.restartable import COLLECTION, event, restartable


async def test_informer_resumes_after_a_restart(javascript_informer: list[str], tmp_path: Path) -> None:
    async with (
        restartable(tmp_path) as server,
        program([*javascript_informer, str(server.kubeconfig), COLLECTION]) as client,
    ):
        await client.until(lambda lines: '{"Started":true}' in lines)
        await server.write("a", "b", "c")
        await server.write("unread")  # the server stops without waiting for the client to have these
        await server.restart()
        await server.write("d", "e", "f", "last")
        await client.until(lambda lines: server.events[-1] in events(lines))
        assert events(client.lines) == server.events
        assert protocols(client.lines) == {"h2"}


def parsed(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def events(lines: list[str]) -> list[tuple[str, str, str]]:
    return [event(line) for line in parsed(lines) if "Type" in line]


def protocols(lines: list[str]) -> set[str]:
    return {line["Proto"] for line in parsed(lines) if "Proto" in line}
