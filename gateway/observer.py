"""RequestObserver: the interface that an audit log implements to be notified of every request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from gateway.exchange import Exchange, RequestRecord
from gateway.message import Request

# Makes the Exchange of a request that has arrived, and stores it in the request.
Observe = Callable[[Request], Exchange]


class RequestObserver(Protocol):
    def received(self, request: Request) -> RequestRecord | Exchange:
        """A request arrived: complete, or with a complete head and a body that was refused or never came.

        Bytes without a valid head are no request. Must not raise or take long. An observer may return an Exchange of
        its own class instead of a record, which saves the calls between the two.
        """


class ExchangeObserver:
    """An observer that has an Exchange of its own class, and stores it in the request itself."""

    received: Observe

    def share(self) -> None:
        """Another observer will have records in its exchanges."""


class AuditNotStored(Exception):
    """An audit log in mode blocking-strict could not store the event of a request, which is therefore refused."""


def observing(observer: RequestObserver | None) -> Observe | None:
    """What connections call for each request; None without an observer."""
    if observer is None:
        return None
    return observer.received if isinstance(observer, ExchangeObserver) else partial(observe, observer)


def observe(observer: RequestObserver, request: Request) -> Exchange:
    received = observer.received(request)
    if isinstance(received, Exchange):
        request.exchange = received
        return received
    exchange = request.exchange = Exchange()
    exchange.begin()
    exchange.report_to(received)
    return exchange


class BothObservers(ExchangeObserver):
    """Two observers of one server: the audit log, and that of a program which embeds the server.

    The second has a record in the first one's Exchange, whose Audit-Id the response has.
    """

    def __init__(self, first: ExchangeObserver, second: RequestObserver) -> None:
        first.share()
        self._first = first
        self._second = second
        self.received = self._received

    def _received(self, request: Request) -> Exchange:
        exchange = self._first.received(request)
        record = self._second.received(request)
        assert not isinstance(record, Exchange)
        exchange.report_to(record)
        return exchange


def both(first: ExchangeObserver | None, second: RequestObserver | None) -> RequestObserver | None:
    """One observer for both; None if there is neither."""
    if first is None or second is None:
        return first or second
    return BothObservers(first, second)
