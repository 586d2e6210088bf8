"""How many frames a peer may send that cost work and ask for nothing: pings, settings, resets, empty data.

Well-behaved clients send few of them, or one with each request. A flood would cost the server more than the peer, so
the connection of a peer that exceeds the budget ends with ENHANCE_YOUR_CALM.
"""

from __future__ import annotations

from gateway.connections.http2.protocol import ENHANCE_YOUR_CALM, ConnectionFault

_BURST = 2000
_PER_SECOND = 500
_PER_REQUEST = 1

FRAME = 1
# A request that is malformed or exceeds the streams' limit: it earns nothing.
NO_REQUEST = _PER_REQUEST + FRAME
# A request that its client resets right away: the server has begun to work on it.
EARLY_RESET = 10
# Streams, or tasks that wait, whose windows one frame changes for the cost of one more frame.
STREAMS_PER_FRAME = 8


class Budget:
    __slots__ = ("_left", "_now", "_requests")

    def __init__(self, now: float) -> None:
        self._left = _BURST
        self._now = now
        self._requests = 0

    def spend(self, cost: int, now: float, requests: int) -> None:
        """Take from the budget at this moment, after so many requests in all. ConnectionFault."""
        self._left -= cost
        if self._left < 0:
            self._refill(now, requests)

    def _refill(self, now: float, requests: int) -> None:
        earned = int((now - self._now) * _PER_SECOND) + (requests - self._requests) * _PER_REQUEST
        self._now, self._requests = now, requests
        self._left = min(_BURST, self._left + earned)
        if self._left < 0:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames that ask for nothing")
