"""The one place that knows status codes: every failure becomes a Status document here.

Actors and reads raise facts (`actors.errors`); the gateway adds the few failures that only HTTP has. Details are
left out where a Kubernetes API server leaves them out, because clients compare them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from actors import errors as cause
from actors.errors import Cause, RequestError, Resource
from gateway.wire.negotiate import NotAcceptable, UnknownMediaTypes, UnsupportedMediaType
from gateway.wire.patch_types import PATCH_MEDIA
from gateway.wire.protobuf.messages import UnknownMessage


class MethodNotAllowed(RequestError):
    message = "the server does not allow this method on the requested resource"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(allowed).encode()  # the methods that the path takes


class UnsupportedPatch(RequestError):
    message = "415: Unsupported Media Type"
    accepted = PATCH_MEDIA


class NoAgent(RequestError):
    """What was asked for runs on a node, and this server talks to none."""

    def __init__(self, node: str) -> None:
        self.message = f"no agent answers on node {node}: this server runs no containers and reaches none"


class NoEndpoints(RequestError):
    """Behind the service is nothing that this server could reach."""

    def __init__(self, service: str) -> None:
        self.message = f'no endpoints available for service "{service}"'


class NotYet(RequestError):
    """Declared, so that clients find it, and not built: saying so is better than pretending."""

    def __init__(self, what: str) -> None:
        self.message = f"this server cannot do this yet: {what}"


class NoSuchPath(Exception):
    """Outside the API, or a group nobody serves: answered in plain text."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A Status in the making."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    token: str = ""

    def document(self) -> dict[str, Any]:
        metadata = {"continue": self.token} if self.token else {}
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if not self.reason:
            del status["reason"]
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


RETRY_SOON = [(b"retry-after", b"1")]
RETRY_LATER = [(b"retry-after", b"10")]

# Reasons for failures that a connection finds before there is a request to speak of.
_PLAIN_REASONS = {
    400: "BadRequest",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    431: "RequestHeaderFieldsTooLarge",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def plain_failure(code: int, message: str) -> Failure:
    if code == 405:
        return Failure(code, "MethodNotAllowed", message, {}, [(b"allow", b"GET, POST, PUT, PATCH, DELETE")])
    return Failure(code, _PLAIN_REASONS.get(code, ""), message)


def failure_of(error: Exception) -> Failure | None:
    """What the client is told of an error; None for one that is not the client's to know."""
    match error:
        case cause.NotFound():
            return Failure(404, "NotFound", str(error), _details(error.resource, error.name))
        case cause.NoSuchResource():
            return Failure(404, "NotFound", str(error), {})
        case MethodNotAllowed():
            return Failure(405, "MethodNotAllowed", str(error), {}, [(b"allow", error.allowed)])
        case cause.AlreadyExists():
            return _already_exists(error)
        case cause.Conflict():
            return Failure(409, "Conflict", str(error), _details(error.resource, error.name, error.causes))
        case cause.ApplyConflict():
            return Failure(409, "Conflict", str(error), {"causes": [_cause(one) for one in error.causes]})
        case cause.Invalid():
            details = _details(Resource(error.group, error.kind), error.name, error.causes)
            return Failure(422, "Invalid", str(error), details)
        case cause.Forbidden():
            details = _details(error.resource, error.name, error.causes) if error.resource else {}
            return Failure(403, "Forbidden", str(error), details)
        case cause.VersionTooLarge():
            return _too_large(error)
        case cause.Expired():
            return Failure(410, "Expired", str(error), token=error.fresh)
        case RequestError():
            return _simple(error)
        case UnknownMediaTypes():
            return Failure(406, "NotAcceptable", str(error), {})
        case NotAcceptable() | UnknownMessage():
            return Failure(406, "NotAcceptable", str(error))
        case UnsupportedMediaType():
            patches = [media for media in error.accepted if media in PATCH_MEDIA]
            headers = _accept_patch(patches) if patches else []
            return Failure(415, "UnsupportedMediaType", str(error), headers=headers)
    return None


def _accept_patch(media: Iterable[str]) -> list[tuple[bytes, bytes]]:
    """RFC 5789: a 415 response to a PATCH names the patch formats that the resource takes."""
    return [(b"accept-patch", ", ".join(media).encode())]


def _simple(error: RequestError) -> Failure | None:
    match error:
        case cause.BadRequest():
            return Failure(400, "BadRequest", str(error))
        case cause.Unauthorized():
            return Failure(401, "Unauthorized", str(error))
        case cause.Unprocessable():
            return Failure(422, "Invalid", str(error), {})
        case UnsupportedPatch():
            return Failure(415, "UnsupportedMediaType", str(error), {}, _accept_patch(error.accepted))
        case cause.TooLarge():
            return Failure(413, "RequestEntityTooLarge", str(error))
        case cause.TimedOut():
            return Failure(504, "Timeout", str(error), {"retryAfterSeconds": 1}, RETRY_SOON)
        case cause.EvictionRefused():
            return _no_eviction(error)
        case NotYet():
            return Failure(501, "NotImplemented", str(error))
        case NoAgent() | NoEndpoints() | cause.ShuttingDown():
            return Failure(503, "ServiceUnavailable", str(error))
        case cause.TooManyBudgets():
            return Failure(500, "", str(error))
        case cause.Overloaded():
            return Failure(429, "TooManyRequests", str(error), {"retryAfterSeconds": 1}, RETRY_SOON)
        case cause.Exhausted():
            told = str(error).removeprefix("Internal error occurred: ")
            return Failure(500, "InternalError", str(error), {"causes": [{"message": told}]})
        case cause.StorageRefused():
            return Failure(507, "InsufficientStorage", str(error), {"retryAfterSeconds": 10}, RETRY_LATER)
    return None


def _already_exists(error: cause.AlreadyExists) -> Failure:
    details = _details(error.resource, error.name)
    if error.generated:
        details["retryAfterSeconds"] = 1
    return Failure(409, "AlreadyExists", str(error), details, RETRY_SOON if error.generated else [])


def _too_large(error: cause.VersionTooLarge) -> Failure:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return Failure(504, "Timeout", f"Timeout: {error}", details, RETRY_SOON)


def _no_eviction(error: cause.EvictionRefused) -> Failure:
    details: dict[str, Any] = {
        "causes": [{"reason": one.reason, "message": one.message} for one in error.causes]
    }
    if not error.retry_after:
        return Failure(429, "TooManyRequests", str(error), details)
    details["retryAfterSeconds"] = error.retry_after
    headers = [(b"retry-after", str(error.retry_after).encode())]
    return Failure(429, "TooManyRequests", str(error), details, headers)


def _details(resource: Resource, name: str, causes: tuple[Cause, ...] = ()) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    if resource.plural:
        details["kind"] = resource.plural
    if causes:
        details["causes"] = [_cause(one) for one in causes]
    return details


def _cause(one: Cause) -> dict[str, str]:
    entry = {"reason": one.reason, "message": one.message}
    if one.field:
        entry["field"] = one.field
    return entry
