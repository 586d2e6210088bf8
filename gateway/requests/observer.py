"""RequestObserver: the interface that an audit log implements to be notified of every request."""

from __future__ import annotations

from typing import Protocol

from actors.access.attributes import Attributes
from actors.access.authorize import Decision
from gateway.requests.exchange import Exchange, RequestRecord
from gateway.requests.request import Request, Response


class RequestObserver(Protocol):
    def received(self, request: Request) -> RequestRecord:
        """A request arrived: complete, or with a complete head and a body that was refused or never came.

        Bytes without a valid head are no request. Must not raise or take long.
        """


class AuditNotStored(Exception):
    """An audit log in mode blocking-strict could not store the event of a request, which is therefore refused."""


def observe(observer: RequestObserver, request: Request) -> Exchange:
    exchange = request.exchange = Exchange()
    exchange.begin(observer.received(request))
    return exchange


def add_audit_id(response: Response, exchange: Exchange) -> None:
    """Send the observer's Audit-Id, so that client and audit log have the same one."""
    response.headers = [*response.headers, (b"audit-id", exchange.audit_id)]
    exchange.response = response


class _BothRecords:
    """Reports every stage to two records; the response has the Audit-Id of the first."""

    __slots__ = ("_first", "_second", "audit_id")

    def __init__(self, first: RequestRecord, second: RequestRecord) -> None:
        self._first = first
        self._second = second
        self.audit_id = first.audit_id

    def attributes(self, attributes: Attributes) -> None:
        self._first.attributes(attributes)
        self._second.attributes(attributes)

    def decision(self, decision: Decision) -> None:
        self._first.decision(decision)
        self._second.decision(decision)

    def response_started(self, status: int) -> None:
        self._first.response_started(status)
        self._second.response_started(status)

    def panic(self, error: BaseException | None) -> None:
        self._first.panic(error)
        self._second.panic(error)

    def response_complete(self, status: int, sent: int, *, cut_off: bool) -> None:
        self._first.response_complete(status, sent, cut_off=cut_off)
        self._second.response_complete(status, sent, cut_off=cut_off)


class BothObservers:
    """Two observers of one server: the audit log, and that of a program which embeds the server."""

    def __init__(self, first: RequestObserver, second: RequestObserver) -> None:
        self._first = first
        self._second = second

    def received(self, request: Request) -> RequestRecord:
        return _BothRecords(self._first.received(request), self._second.received(request))


def both(first: RequestObserver | None, second: RequestObserver | None) -> RequestObserver | None:
    """One observer for both; None if there is neither."""
    if first is None or second is None:
        return first or second
    return BothObservers(first, second)
