"""Hypercorn's configuration with the defaults of this server: where it listens, and how long it waits for clients.

`server_config` makes one of the settings: binds from flags or from the file of --server-config, everything else from
that file. `listen` opens its sockets, `Limits` takes its numbers, `secure_port` its certificates. Only
`hypercorn.config` is imported: `hypercorn.trio` would take 80 ms and 3 MB for protocols that are not used here.
"""

from __future__ import annotations

from hypercorn.config import Config

from gateway.connections.tls_context import CIPHERS
from gateway.settings.settings import Settings


class ServerConfig(Config):
    # The kernel queues a burst of clients (all controllers after a restart) instead of refusing them.
    backlog = 1024
    ciphers = CIPHERS
    ssl_handshake_timeout = 10.0
    # Longer than the 90 s after which Go clients drop an idle connection: the client closes first, so no
    # request is ever sent into a connection that we are closing.
    keep_alive_timeout = 120.0
    # How long running requests may take to end after the listeners are closed.
    graceful_timeout = 60.0
    # Request line and headers together, as much as Go's servers accept.
    h11_max_incomplete_size = 1024 * 1024
    # Header block and header list: decoding holds the event loop, for a quarter of a microsecond per byte.
    h2_max_header_list_size = 256 * 1024
    h2_max_concurrent_streams = 250
    worker_class = "trio"


def server_config(settings: Settings) -> ServerConfig:
    """As Hypercorn reads it: without certificates, `bind` has the plain listeners."""
    config = ServerConfig()
    for key, value in settings.server.keys.items():
        setattr(config, key, value)
    secure, plain = list(settings.secure_binds), list(settings.insecure_binds)
    config.bind, config.insecure_bind = (secure, plain) if secure else (plain, [])
    config.h2_max_concurrent_streams = settings.http2_streams
    config.quic_bind = [settings.quic_bind] if settings.quic_bind else []
    return config
