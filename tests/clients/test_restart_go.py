"""Ten watches of a Go program on one HTTP/2 connection get every event once, through a restart of the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.clients.program import Program, program
from tests.clients.restartable import COLLECTION, Event, RestartableServer, event, restartable

WATCHES = 10


async def test_ten_watches_on_one_connection_resume_after_a_restart(go_watches: str, tmp_path: Path) -> None:
    async with restartable(tmp_path) as server, program(command(go_watches, server)) as client:
        await client.until(lambda lines: len(begun(lines)) == WATCHES)
        await server.write("a", "b", "c")
        await server.write("unread")  # the server stops without waiting for a client to have these
        await server.restart()
        await server.write("d", "e", "f", "last")
        await client.until(lambda lines: lines_of("last", "DELETED", lines) == WATCHES)
        assert [events(client, watch) for watch in range(WATCHES)] == [server.events] * WATCHES
        before, after = begun(client.lines)[:WATCHES], begun(client.lines)[WATCHES:]
        assert {line["Proto"] for line in (*before, *after)} == {"HTTP/2.0"}
        assert {line["Watch"] for line in after} == set(range(WATCHES))
        assert len({line["Connection"] for line in before}) == 1


def command(executable: str, server: RestartableServer) -> list[str]:
    ca, pair = server.certificates()
    flags = ("-server", server.address, "-path", COLLECTION, "-watches", str(WATCHES))
    return [executable, *flags, "-ca", str(ca), "-pair", str(pair)]


def begun(lines: list[str]) -> list[dict[str, Any]]:
    """The watches that began, in the order in which they did."""
    return [line for line in map(json.loads, lines) if "Proto" in line]


def lines_of(name: str, kind: str, lines: list[str]) -> int:
    return sum(1 for line in map(json.loads, lines) if (line.get("Name"), line.get("Type")) == (name, kind))


def events(client: Program, watch: int) -> list[Event]:
    lines = map(json.loads, client.lines)
    return [event(line) for line in lines if line["Watch"] == watch and "Type" in line]
