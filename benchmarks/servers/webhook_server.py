"""A webhook in a separate process: allows everything, at once or after the seconds in its path, and converts.

    python -m benchmarks.servers.webhook_server CERTIFICATE KEY

It prints its port. `/0` responds at once, `/2.5` after 2.5 seconds. It parses as little as it can, so that it does not
take the core that the measured server needs. A conversion changes apiVersion alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext, SSLError
from typing import Any

import orjson

from benchmarks.options import ROOT

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_UID = re.compile(rb'"uid":"([^"]+)"')
_TARGET = re.compile(rb"POST /([0-9.]+)")
_TYPE = re.compile(rb'"apiVersion":"(admission\.[^"]+)"')


@contextmanager
def webhook_server(certificate: Path, key: Path) -> Iterator[int]:
    """The port of a webhook that runs until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.servers.webhook_server", str(certificate), str(key)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def main() -> None:
    import trio

    async def serve(stream: Any) -> None:
        buffer = b""
        try:
            while True:
                while (request := _complete(buffer)) is None:
                    part = await stream.receive_some()
                    if not part:
                        return
                    buffer += part
                buffer = buffer[len(request) :]
                target = _TARGET.match(request)
                await trio.sleep(float(target[1]) if target else 0)
                await stream.send_all(_response(request))
        except (trio.BrokenResourceError, SSLError):
            pass  # the client has gone

    async def run() -> None:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        listeners = await trio.open_ssl_over_tcp_listeners(
            0, context, host="127.0.0.1", https_compatible=True
        )
        print(listeners[0].transport_listener.socket.getsockname()[1], flush=True)
        await trio.serve_listeners(serve, listeners)

    trio.run(partial(run))


def _complete(buffer: bytes) -> bytes | None:
    """The first request in the buffer; None if it has not arrived whole."""
    end = buffer.find(b"\r\n\r\n")
    length = _LENGTH.search(buffer, 0, max(end, 0))
    size = end + 4 + int(length[1]) if end >= 0 and length else 0
    return buffer[:size] if 0 < size <= len(buffer) else None


def _response(request: bytes) -> bytes:
    body = _converted(request) if b'{"kind":"ConversionReview"' in request else _allowed(request)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _converted(request: bytes) -> bytes:
    review = orjson.loads(request[request.index(b"\r\n\r\n") + 4 :])
    asked = review["request"]
    for one in asked["objects"]:
        one["apiVersion"] = asked["desiredAPIVersion"]
    result = {"uid": asked["uid"], "convertedObjects": asked["objects"], "result": {"status": "Success"}}
    return orjson.dumps({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": result})


def _allowed(request: bytes) -> bytes:
    uid, version = _UID.search(request), _TYPE.search(request)
    assert uid is not None and version is not None
    return b'{"kind":"AdmissionReview","apiVersion":"%b","response":{"uid":"%b","allowed":true}}' % (
        version[1],
        uid[1],
    )


if __name__ == "__main__":
    main()
