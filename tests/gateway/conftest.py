"""For all tests of the gateway."""

from __future__ import annotations

# A server imports it in a thread with the first HTTP/2 connection, and a clock that jumps does not wait for threads.
import gateway.connections.http2.connection  # noqa: F401
