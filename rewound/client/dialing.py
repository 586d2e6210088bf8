"""Opens a stream to the server of a target: through its proxy, and with TLS, as configured.

For what httpx cannot do: WebSockets, and HTTP/2 connections that many requests share.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from typing import Any
from urllib.parse import unquote, urlsplit

import trio

from rewound.actors.certificates.trust import verifying
from rewound.client.target import Target, environment_proxy

_PROXY_HEAD = 1 << 16  # bytes, at most
_PORTS = {"http": 80, "https": 443}


class UnusableProxy(Exception):
    """The proxy has another scheme than http and https, or no host."""


async def dial(target: Target, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Raises UnusableProxy, OSError, and trio's errors of broken streams, whose cause says why."""
    parts = urlsplit(target.server)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    proxy = target.proxy_url or environment_proxy(target.server)
    stream: trio.abc.Stream = await (
        _through_proxy(proxy, host, port) if proxy else trio.open_tcp_stream(host, port)
    )
    return stream if tls is None else await _secured(stream, tls, target.tls_server_name or host)


async def _through_proxy(proxy: str, host: str, port: int) -> trio.abc.Stream:
    """Open a tunnel to the server, also without TLS: a request that is forwarded could not be upgraded."""
    parts = urlsplit(proxy)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise UnusableProxy
    stream: trio.abc.Stream = await trio.open_tcp_stream(parts.hostname, parts.port or _PORTS[parts.scheme])
    try:
        if parts.scheme == "https":
            stream = await _secured(stream, verifying(None), parts.hostname)
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}"]
        if parts.username or parts.password:
            user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {b64encode(user.encode()).decode()}")
        await stream.send_all(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _PROXY_HEAD:
            data = await stream.receive_some(1)  # bytes after the head come from the server
            if not data:
                break
            head += data
        status = head.partition(b"\r\n")[0].split(b" ", 2)
        if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].startswith(b"2"):
            said = b" ".join(status[1:]).decode("latin-1") or "it closed the connection"
            raise OSError(f"the proxy refused it: {said}")
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def _secured(stream: trio.abc.Stream, context: ssl.SSLContext, name: str) -> trio.SSLStream[Any]:
    secured: trio.SSLStream[Any] = trio.SSLStream(
        stream, context, server_hostname=name, https_compatible=True
    )
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(secured)
        raise
    return secured
