"""RequestObserver: the interface that an audit log implements to be notified of every request."""

from __future__ import annotations

from typing import Protocol

from gateway.requests.exchange import Exchange, RequestRecord
from gateway.requests.request import Request, Response


class RequestObserver(Protocol):
    def received(self, request: Request) -> RequestRecord:
        """A request arrived: complete, or with a complete head and a body that was refused or never came.

        Bytes without a valid head are no request. Must not raise or take long.
        """


def observe(observer: RequestObserver, request: Request) -> Exchange:
    exchange = request.exchange = Exchange(observer.received(request))
    return exchange


def add_audit_id(response: Response, exchange: Exchange) -> None:
    """Send the observer's Audit-Id, so that client and audit log have the same one."""
    response.headers = [*response.headers, (b"audit-id", exchange.audit_id)]
