"""An HTTPS server in threads that records requests and answers with what a test gives it.

with fake_server() as server:
    server.answers["GET /apis"] = (200, {"groups": []})
    ...
    assert server.requests[0].headers["authorization"] == "Bearer x"
"""

from __future__ import annotations

import itertools
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.client import pki


@dataclass(frozen=True)
class Recorded:
    method: str
    path: str
    headers: Message
    body: bytes
    connection: int  # counted from the first one of the server
    common_name: str  # of the client certificate
    server_name: str

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeServer:
    url: str = ""
    requests: list[Recorded] = field(default_factory=list)
    # "METHOD path" -> status and document, and headers if there are any; a list is consumed from its front.
    answers: dict[str, Any] = field(default_factory=dict)

    def answer(self, request: Recorded) -> tuple[int, Any, dict[str, str]]:
        self.requests.append(request)
        found = self.answers.get(f"{request.method} {request.path}", (200, {}))
        if isinstance(found, list):
            found = found.pop(0)
        status, document, *headers = found
        return status, document, headers[0] if headers else {}

    def tokens(self) -> list[str | None]:
        return [one.headers["authorization"] for one in self.requests]


@contextmanager
def fake_server(
    *, plain: bool = False, version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
) -> Iterator[FakeServer]:
    """`version` is the highest of TLS: up to 1.2, the handshake fails for a bad client certificate."""
    state = FakeServer()
    httpd = _Server(("127.0.0.1", 0), _Handler)
    httpd.state = state
    if not plain:
        httpd.socket = _context(version).wrap_socket(
            httpd.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
    state.url = f"{'http' if plain else 'https'}://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        httpd.shutdown()
        thread.join(60)
        httpd.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    state: FakeServer

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.numbers = itertools.count()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that refuse our certificate end the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.number = next(self.server.numbers)

    def handle_all(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        status, document, headers = self.server.state.answer(
            Recorded(
                self.command,
                self.path,
                self.headers,
                body,
                self.number,
                _common_name(self.connection),
                getattr(self.connection, "asked_name", ""),
            )
        )
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_all

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _common_name(connection: Any) -> str:
    if not isinstance(connection, ssl.SSLSocket):
        return ""
    peer: Any = connection.getpeercert() or {}
    return next((value for part in peer.get("subject", ()) for key, value in part if key == "commonName"), "")


def _context(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=pki.authority().pem)
    context.sni_callback = _keep_name
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder, "pair.pem")
        pair.write_text(pki.server().pem + pki.server().key)
        context.load_cert_chain(pair)
    return context


def _keep_name(connection: Any, name: str | None, context: ssl.SSLContext) -> None:
    connection.asked_name = name or ""
