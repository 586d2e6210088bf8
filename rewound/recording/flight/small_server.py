"""A server of some paths without a journal: the front page of several clusters, and a standby."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson
import trio

from rewound.actors.certificates.names import certificate_name, reachable_addresses
from rewound.actors.certificates.pki import prepare
from rewound.actors.runtime.threads import run_in_thread
from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.connections.limits import KIB, Limits
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.responder import Handle
from rewound.gateway.connections.server import Server
from rewound.gateway.message import Response
from rewound.gateway.settings.server_config import host_and_port
from rewound.gateway.settings.settings import Addresses
from rewound.rewind.page.files import HEADERS

_LIMITS: Final = Limits(body=KIB, target=8 * KIB, head=32 * KIB, headers=100, connections=256)


async def serve_paths(
    handle: Handle,
    bind: str,
    ports: tuple[int, int],
    pki: Path,
    stop: trio.Event,
    task_status: trio.TaskStatus[Addresses] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on ports for HTTPS and plain HTTP, of which 0 is off, until `stop` is set.

    `pki` gets the certificate. Raises CannotListen, CertificateError and OSError.
    """
    config, context = ServerConfig(), None
    secure, plain = ([host_and_port(bind, port)] if port else [] for port in ports)
    config.listen_on(secure, plain)
    if secure:
        names = ("localhost", "127.0.0.1", "::1", socket.gethostname(), *reachable_addresses(bind))
        usable = dict.fromkeys(name for name in map(certificate_name, names) if name)
        own = await run_in_thread(prepare, pki, tuple(usable), time.time())
        config.certfile, config.keyfile = str(own.certificate("server")), str(own.key("server"))
        context = config.create_ssl_context()
    server = Server(handle, failure, _LIMITS)
    async with trio.open_nursery() as nursery:
        listeners: list[Listener] = await nursery.start(
            lambda task_status: server.serve(config, tls=context, stop=stop, task_status=task_status)
        )
        addresses = [one.address for one in listeners]
        task_status.started(
            Addresses(secure=addresses[0] if secure else None, insecure=addresses[-1] if plain else None)
        )


def respond(status: int, body: bytes) -> Response:
    return Response(status, body, b"application/json", [*HEADERS[:-1], (b"cache-control", b"no-store")])


def failure(status: int, message: str, more: Sequence[tuple[bytes, bytes]] = ()) -> Response:
    document = {"kind": "Status", "status": "Failure", "code": status, "message": message}
    response = respond(status, orjson.dumps(document))
    response.headers += more
    return response
