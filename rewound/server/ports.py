"""Checks that a server can listen on its ports, before it touches its data folder or starts anything.

Another program may still take a port until the server listens; that start fails later, with the same sentence.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

from rewound.gateway.settings.server_config import QUIC, bound_address
from rewound.gateway.settings.settings import Settings


def unusable_port(settings: Settings) -> str | None:
    """A sentence about the first port on which this server cannot listen; None if it can listen on all."""
    with ExitStack() as bound:
        quic = (f"{QUIC}{settings.quic_bind}",) if settings.quic_bind else ()
        for bind in (*settings.secure_binds, *settings.insecure_binds, *quic):
            address = None if bind.startswith("fd://") else bound_address(bind.removeprefix(QUIC))
            if address is None:
                continue
            host, port = address
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            datagrams = bind.startswith(QUIC)
            kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
            sock = bound.enter_context(socket.socket(family, kind))
            if not datagrams:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the listener will
            try:
                sock.bind((host, port))
            except (OSError, UnicodeError) as error:
                return _explained(bind, error, settings)
    return None


def _explained(bind: str, error: OSError | UnicodeError, settings: Settings) -> str | None:
    from rewound.gateway.connections.listen import CannotListen
    from rewound.server.failures import explain

    number = getattr(error, "errno", None) or 0
    unknown_host = isinstance(error, socket.gaierror | UnicodeError)
    why = os.strerror(number) if number > 0 else str(error)
    return explain(CannotListen(bind, number, why, unknown_host=unknown_host), settings)
