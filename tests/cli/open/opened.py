"""The listener of `rewound open` in front of a server, and requests to it byte by byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from rewound.cli.open.listener import PageListener
from rewound.client.credentials import Credential, CredentialSource, FixedCredential
from rewound.client.streaming import StreamingSession
from rewound.client.target import Target

PAGE = "/debug/journal/#object=pods/default/web&at=7"


@dataclass(frozen=True)
class Received:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Opened:
    listener: PageListener
    reported: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.listener.port}"

    def new_code(self) -> str:
        """The path of a new link."""
        return self.listener.gate.new_link().removeprefix(f"http://{self.host}")

    async def sign_in(self) -> str:
        """The cookie of a browser that used a link."""
        entered = await self.ask("GET", self.new_code())
        assert entered.status == 200
        return entered.headers["set-cookie"].partition(";")[0]

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Received:
        """Send a request unchanged: no client normalizes it. Underscores in header names become hyphens."""
        fields = {"host": self.host, "connection": "close"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        if body and "transfer-encoding" not in fields:
            fields.setdefault("content-length", str(len(body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        stream = await trio.open_tcp_stream("127.0.0.1", self.listener.port)
        async with stream:
            await stream.send_all(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
            data = b"".join([part async for part in stream])
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        received = dict(line.split(": ", 1) for line in others)
        return Received(int(first.split(" ")[1]), received, rest)


@asynccontextmanager
async def opened(target: Target) -> AsyncIterator[Opened]:
    reported: list[str] = []
    listener = PageListener(StreamingSession(target), PAGE, reported.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.serve, 0)
        yield Opened(listener, reported)
        nursery.cancel_scope.cancel()


def target_of(url: str, credentials: CredentialSource | None = None) -> Target:
    found = credentials or FixedCredential(Credential("Bearer of-alice"))
    return Target(server=url, credentials=found, configured_in="a test")
