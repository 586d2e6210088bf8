"""A minimal API server: ConfigMaps in a dictionary, and the responses that the harness relies on.

The tests run the harness against it, so that they need no server of ours and depend on no speed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "fake-token"
TIMEOUT = 5.0  # seconds without an event until the server ends a watch


class Store:
    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.objects: dict[str, dict[str, Any]] = {}  # by path
        self.version = 0
        self.requests: list[str] = []
        self.events: list[
            tuple[int, str, dict[str, Any]]
        ] = []  # version, collection, object; one event per version

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = body
        self.events.append((self.version, path.rpartition("/")[0], body))
        self.lock.notify_all()
        return body

    def after(self, version: int, path: str) -> tuple[list[dict[str, Any]], int]:
        """Waits for any event after a version; returns those of this collection and the current version."""
        with self.lock:
            self.lock.wait_for(lambda: self.version > version, timeout=TIMEOUT)
            return [body for _, where, body in self.events[version:] if where == path], self.version

    def below(self, path: str) -> list[str]:
        return sorted(key for key in self.objects if key.rpartition("/")[0] == path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet per response
    disable_nagle_algorithm = True
    server: FakeServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        store = self.server.store
        if "watch=1" in parts.query:
            self.stream(parts.path, int(parse_qs(parts.query)["resourceVersion"][0]))
            return
        with store.lock:
            store.requests.append(f"GET {self.path}")
            if parts.path == "/version":
                self.respond(200, {"gitVersion": "v0.0-fake"})
            elif parts.path in store.objects and not parts.path.endswith("/configmaps"):
                self.respond(200, store.objects[parts.path])
            elif parts.path.endswith("/configmaps"):
                self.respond(200, self.listed(parts.path, parse_qs(parts.query)))
            else:
                self.respond(404, {"kind": "Status"})

    def stream(self, path: str, version: int) -> None:
        """Events after a version, one chunk each, until the client disconnects or nothing happens for a while."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        with suppress(OSError):
            while True:
                bodies, reached = self.server.store.after(version, path)
                if reached == version:
                    return
                version = reached
                for body in bodies:
                    content = json.dumps({"type": "MODIFIED", "object": body}).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
                self.wfile.flush()

    def listed(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        keys = self.server.store.below(path)
        start = int(query.get("continue", ["0"])[0])
        limit = int(query.get("limit", ["0"])[0]) or len(keys)
        metadata = {"resourceVersion": str(self.server.store.version)}
        if start + limit < len(keys):
            metadata["continue"] = str(start + limit)
        items = [self.server.store.objects[key] for key in keys[start : start + limit]]
        return {"metadata": metadata, "items": items}

    def do_POST(self) -> None:
        body, store = self.body(), self.server.store
        path = f"{self.path}/{body['metadata']['name']}"
        with store.lock:
            store.requests.append(f"POST {self.path}")
            if path in store.objects:
                self.respond(409, {"kind": "Status"})
            else:
                self.respond(201, store.put(path, body))

    def do_PUT(self) -> None:
        body, store = self.body(), self.server.store
        with store.lock:
            known = store.objects[self.path]["metadata"]["resourceVersion"]
            if body["metadata"].get("resourceVersion", known) != known:
                self.respond(409, {"kind": "Status"})
            else:
                self.respond(200, store.put(self.path, body))

    def do_DELETE(self) -> None:
        store = self.server.store
        with store.lock:
            store.requests.append(f"DELETE {self.path}")
            deleted = [key for key in store.objects if key == self.path or key.startswith(f"{self.path}/")]
            for key in deleted:
                del store.objects[key]
            self.respond(200 if deleted else 404, {"kind": "Status"})

    def body(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return content

    def respond(self, status: int, body: Any) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, body = 401, {"kind": "Status", "message": "Unauthorized"}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = Store()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60)
