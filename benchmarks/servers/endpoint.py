"""Where a server listens, the token to send and the processes whose CPU counts.

Only loopback addresses are accepted: the harness generates load, and it reads the server's CPU clock from the kernel
of this machine, so measuring another machine would harm it and yield no figures.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit


class NotLoopback(ValueError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host!r} is not a loopback address: the harness measures servers on this machine only "
            "(127.0.0.0/8, localhost or ::1)"
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int
    tls: bool
    token: str
    pids: tuple[int, ...]  # children are counted with their parents

    @classmethod
    def parse(cls, url: str, *, token: str, pids: tuple[int, ...] = ()) -> Endpoint:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http or https address")
        check_loopback(parts.hostname)
        tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, token, pids)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def check_loopback(host: str) -> None:
    if host == "localhost":
        return
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise NotLoopback(host) from None
    if not address.is_loopback:
        raise NotLoopback(host)
