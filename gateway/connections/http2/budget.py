"""How many frames a peer may send that cost work and ask for nothing: pings, settings, resets, empty data.

Well-behaved clients send few of them. A flood would cost the server more than the peer, so the connection of a peer
that exceeds the budget ends with ENHANCE_YOUR_CALM.
"""

from __future__ import annotations

from gateway.connections.http2.protocol import ENHANCE_YOUR_CALM, ConnectionFault

_BURST = 2000
_PER_SECOND = 500

FRAME = 1
# A request that its client resets right away: the server has begun to work on it.
EARLY_RESET = 10


class Budget:
    __slots__ = ("_left", "_now")

    def __init__(self, now: float) -> None:
        self._left = _BURST
        self._now = now

    def spend(self, cost: int, now: float) -> None:
        self._left -= cost
        if self._left < 0:
            self._refill(now)

    def _refill(self, now: float) -> None:
        earned = int((now - self._now) * _PER_SECOND)
        self._now = now
        self._left = min(_BURST, self._left + earned)
        if self._left < 0:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames that ask for nothing")
