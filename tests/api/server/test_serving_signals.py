"""SIGTERM drains a server under load; a second signal ends it at once."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import trio

from tests.gateway.api import ADMIN, names, served
from tests.gateway.processes import Server, process

PATH = "/api/v1/namespaces/default/configmaps"
WRITERS = 8


class Load:
    """Writers that write until the server closes. Each write gets a whole response or none at all."""

    def __init__(self, server: Server) -> None:
        self._address = ("127.0.0.1", server.port)
        self.acknowledged: list[str] = []
        self.cut_off: list[bytes] = []
        self.enough = trio.Event()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(WRITERS):
                nursery.start_soon(self._write, number)

    async def _write(self, number: int) -> None:
        async with await trio.open_tcp_stream(*self._address) as stream:
            for count in range(100_000):
                name = f"w{number}-{count}"
                answer = await ask(stream, name)
                if not answer.endswith(b"}\n"):
                    self.cut_off += [answer] if answer else []
                    return
                assert answer.startswith(b"HTTP/1.1 201"), answer
                self.acknowledged.append(name)
                if len(self.acknowledged) == 20 * WRITERS:
                    self.enough.set()
                if b"connection: close" in answer.lower():
                    return


async def ask(stream: trio.SocketStream, name: str) -> bytes:
    """The bytes of the response that arrived; empty where the server closed before it began."""
    body = b'{"metadata":{"name":"%b"}}' % name.encode()
    head = b"POST %b HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n"
    answer = b""
    try:
        await stream.send_all(head % (PATH.encode(), ADMIN.encode(), len(body)) + body)
        while not whole(answer):
            more = await stream.receive_some(65536)
            if not more:
                break
            answer += more
    except trio.BrokenResourceError:
        pass
    return answer


def whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(found) and length is not None and len(body) == int(length[1])


async def test_acknowledged_writes_survive_and_no_response_is_cut_off(tmp_path: Path) -> None:
    async with process(tmp_path) as server:
        load = Load(server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run)
            await load.enough.wait()
            server.signal(signal.SIGTERM)
        assert await server.ended() == 0
    assert load.cut_off == []
    async with served(tmp_path) as api:
        assert set(names(await api.list("configmaps"))) == set(load.acknowledged)


async def test_during_the_shutdown_delay_readyz_fails_and_requests_are_served(tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = ("--shutdown-delay-duration", "60s", "--log-format", "json")
    with log.open("wb") as file:
        async with process(tmp_path, *flags, errors=file.fileno()) as server:
            await stopped_twice(server)
    ends = [
        line["message"] for line in map(json.loads, log.read_text().splitlines()) if "SIG" in line["message"]
    ]
    assert ends == [
        "stopping because of SIGINT: requests complete, then the journal closes",
        "SIGTERM came while the server was stopping: it ends at once",
    ]
    async with served(tmp_path) as api:
        await api.get("configmaps", "late")


async def stopped_twice(server: Server) -> None:
    """SIGINT begins the delay, in which a request is served; SIGTERM ends it."""
    server.signal(signal.SIGINT)
    with trio.fail_after(60):
        while (await server.client.get("/readyz")).status_code == 200:
            await trio.lowlevel.checkpoint()
    assert (await server.client.get("/livez")).status_code == 200
    made = await server.client.post(PATH, json={"metadata": {"name": "late"}})
    assert made.status_code == 201
    server.signal(signal.SIGTERM)
    assert await server.ended() == 128 + signal.SIGTERM
