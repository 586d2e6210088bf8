"""The fields that every response has, whichever connection sends it, also one that refuses what is no request.

These are a date, `Cache-Control: no-cache, private` unless its handler set one, its content type, the FlowSchema and
priority level (`Response.shared`), and an Audit-Id: that of its observer, or one of its own. A connection adds only the
fields of its framing, such as a length, and encodes them all (`gateway.connections.heads`).
"""

from __future__ import annotations

from typing import Final

from rewound.gateway.exchange import Exchange, next_audit_id
from rewound.gateway.message import Response
from rewound.gateway.wire.http_date import http_date

Fields = list[tuple[bytes, bytes]]

AUDIT_ID: Final = b"audit-id"
CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")
_LINE_FEED: Final = 10
_CARRIAGE_RETURN: Final = 13


def all_fields(response: Response, exchange: Exchange | None) -> Fields:
    """The fields of a response, without its length; `exchange` has its Audit-Id, if it is observed."""
    return one_line([*common_fields(response), *own_fields(response, exchange)])


def common_fields(response: Response) -> Fields:
    """Those that responses with one status, content type and flow have in common."""
    fields = [(b"date", http_date())]
    if response.content_type:
        fields.append((b"content-type", response.content_type))
    if response.shared is not None:
        fields += response.shared.fields
    return fields


def own_fields(response: Response, exchange: Exchange | None) -> Fields:
    """Those of its handler, with what every response has."""
    names = [name for name, _ in response.headers]
    fields = [] if CACHE_CONTROL[0] in names else [CACHE_CONTROL]
    fields += response.headers
    if exchange is not None:
        fields.append((AUDIT_ID, exchange.audit_id))
    elif AUDIT_ID not in names:
        fields.append((AUDIT_ID, next_audit_id()))
    return fields


def one_line(fields: Fields) -> Fields:
    """Remove line breaks: one inside a value would let a client inject headers into the response."""
    text = b"".join([name + value for name, value in fields])
    # By number: a search for bytes takes far longer.
    if _LINE_FEED not in text and _CARRIAGE_RETURN not in text:
        return fields
    return [(b" ".join(name.split()), b" ".join(value.split())) for name, value in fields]
