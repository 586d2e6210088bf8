"""The role of a child process: its kind, the sockets that it inherits, and where it finds the other processes.

The parent passes it as the child's first argument, as JSON; the flags of the server follow.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewound.gateway.settings.settings import Addresses
from rewound.server.extensions import Binds

WRITER, WORKER = "writer", "worker"
Ready = Callable[[], Awaitable[None]]  # called once, when a child serves


@dataclass(frozen=True, slots=True)
class Role:
    name: str  # WRITER or WORKER
    index: int  # among the processes that serve; the writer process is the first
    workers: int  # how many processes serve
    folder: str  # with the socket of the writer process and the shared page
    parent: int  # file descriptor of the connection to the parent
    addresses: tuple[Any, ...]  # where clients reach the server
    writer: int | None = None  # file descriptor of the socket on which the writer process accepts workers
    secure: tuple[int, ...] = ()  # file descriptors on which clients are accepted
    plain: tuple[int, ...] = ()
    living: tuple[int, ...] = ()  # ids of the workers that run when a writer process is started

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Role:
        fields = json.loads(text)
        for name in ("secure", "plain", "addresses", "living"):
            fields[name] = tuple(fields[name])
        return cls(**fields)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptors that the child inherits."""
        writer = () if self.writer is None else (self.writer,)
        return (self.parent, *writer, *self.secure, *self.plain)

    @property
    def binds(self) -> Binds:
        return Binds(tuple(map(_bind, self.secure)), tuple(map(_bind, self.plain)))

    @property
    def socket(self) -> Path:
        return socket_in(Path(self.folder))

    @property
    def page(self) -> Path:
        return page_in(Path(self.folder))

    def listening(self) -> Addresses:
        secure, insecure, hosts, others = self.addresses
        return Addresses(_pair(secure), _pair(insecure), tuple(hosts), tuple(others))


def addresses_of(addresses: Addresses) -> tuple[Any, ...]:
    return addresses.secure, addresses.insecure, addresses.hosts, addresses.others


def socket_in(folder: Path) -> Path:
    return folder / "writer"


def page_in(folder: Path) -> Path:
    return folder / "page"


def _bind(number: int) -> str:
    return f"fd://{number}"


def _pair(value: list[Any] | None) -> tuple[str, int] | None:
    return None if value is None else (value[0], value[1])
