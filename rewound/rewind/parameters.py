"""Parameters of requests for history: pages, the two ends of a difference, and the body of a rollback or undelete."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.errors import BadRequest
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.validation import size
from rewound.actors.rewind.moments import Moment, parse_moment
from rewound.actors.rewind.restore import MAX_FIELDS, MAX_LENGTH
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.options import boolean

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
MAX_BODY: Final = 256 * 1024
_MAX_UID: Final = 253


def limit_of(context: RequestContext) -> int:
    """How many versions a page has at most."""
    wanted = context.parameters.integer("limit") or DEFAULT_LIMIT
    if wanted < 0:
        raise BadRequest(f"limit: Invalid value: {wanted}: must not be negative")
    return min(wanted, MAX_LIMIT)


def token_of(offset: int) -> str:
    """The continue token of a history: the version with which the next page begins. Opaque, but not secret."""
    return base64.urlsafe_b64encode(orjson.dumps({"from": offset})).rstrip(b"=").decode()


def offset_in(token: str) -> int:
    try:
        value = orjson.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        offset = value["from"]
    except (binascii.Error, ValueError, TypeError, KeyError):
        offset = None
    if type(offset) is not int or not 0 < offset < 1 << 63:
        raise BadRequest("continue key is not valid: it is not a token that this server made")
    return offset


def uid_in(context: RequestContext) -> str:
    return checked_uid(context.parameters.first("uid") or "")


def checked_uid(uid: str) -> str:
    if len(uid) > _MAX_UID:
        raise BadRequest("uid: Too long: may have at most 253 characters")
    return uid


def wants_managed_fields(context: RequestContext) -> bool:
    """Whether patches are exact, or leave out managedFields and resourceVersion, which every write changes."""
    text = context.parameters.first("managedFields")
    return text is None or boolean(text)


def diff_ends(text: str) -> tuple[Moment, Moment | None]:
    """The ends of A..B; without a B, the second is now."""
    first, dots, second = text.partition("..")
    if not dots:
        raise BadRequest(
            f"diff: Invalid value: {quoted(text[:64])}: must be two versions or times: A..B, or A.."
        )
    return parse_moment(first, "diff"), parse_moment(second, "diff") if second else None


class RollbackRequest(msgspec.Struct, frozen=True):
    to: Moment
    fields: tuple[str, ...]


class UndeleteRequest(msgspec.Struct, frozen=True):
    uid: str


def rollback_request(context: RequestContext, names: Sequence[str]) -> RollbackRequest:
    """Parse the body of a rollback. `names` are the apiVersion and kind that it may have."""
    body = _body(context, names, ("to", "fields"))
    to = body.get("to")
    if type(to) is int:
        to = str(to)
    if not isinstance(to, str):
        raise BadRequest("to: Required value: the version or the time to roll back to")
    fields = body.get("fields")
    if fields == []:
        raise BadRequest("fields: Invalid value: is empty; leave it out to roll back the whole object")
    if fields is None:
        fields = []
    if not isinstance(fields, list) or not all(isinstance(one, str) for one in fields):
        raise BadRequest("fields: Invalid value: must be a list of paths such as spec.replicas")
    if len(fields) > MAX_FIELDS or any(size(one) > MAX_LENGTH for one in fields):
        raise BadRequest(f"fields: Too many: may have at most {MAX_FIELDS}, of {MAX_LENGTH} bytes each")
    return RollbackRequest(parse_moment(to, "to"), tuple(fields))


def undelete_request(context: RequestContext, names: Sequence[str]) -> UndeleteRequest:
    body = _body(context, names, ("uid",))
    uid = body.get("uid") or ""
    if not isinstance(uid, str):
        raise BadRequest("uid: Invalid value: must be the uid of the deleted object")
    return UndeleteRequest(checked_uid(uid))


def _body(context: RequestContext, names: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    raw = context.request.body
    if len(raw) > MAX_BODY:
        raise BadRequest(f"the body of the request may have at most {MAX_BODY} bytes")
    try:
        body = orjson.loads(raw) if raw.strip() else {}
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body of the request must be an object")
    unknown = [name for name in body if name not in (*known, "apiVersion", "kind", "metadata")]
    if unknown:
        raise BadRequest(
            f"the body of the request has an unknown field {quoted(unknown[0][:64])}; it may have {' and '.join(known)}"
        )
    for field, wanted in zip(("apiVersion", "kind"), names, strict=True):
        if body.get(field) not in (None, "", wanted):
            raise BadRequest(f"{field}: Invalid value: must be {wanted} or be left out")
    if raw and (exchange := context.exchange) is not None and exchange.keeps_request:
        exchange.request_json = raw
    return body
