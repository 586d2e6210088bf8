"""Who wants to know of every request: the interface that an audit log implements."""

from __future__ import annotations

from typing import Protocol

from gateway.requests.exchange import Exchange, RequestRecord
from gateway.requests.request import Request, Response


class RequestObserver(Protocol):
    def received(self, request: Request) -> RequestRecord:
        """A request is here: whole, or with a head that is and a body that is refused or never came.

        Bytes that make no head are no request. May not raise or take long.
        """


def observe(observer: RequestObserver, request: Request) -> Exchange:
    exchange = request.exchange = Exchange(observer.received(request))
    return exchange


def add_audit_id(response: Response, exchange: Exchange) -> None:
    """Respond with the observer's Audit-Id, not with one that only the client sees."""
    response.headers = [*response.headers, (b"audit-id", exchange.audit_id)]
