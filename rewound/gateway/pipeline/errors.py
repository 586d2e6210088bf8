"""Turns every error into a Status; the only module that knows status codes.

Actors and reads raise errors without codes (`actors.errors`); the gateway adds the few that only HTTP has. Details are
left out where kube-apiserver leaves them out, because clients compare them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rewound.actors import errors as cause
from rewound.actors.errors import Cause, RequestError, Resource
from rewound.actors.golang.json import dumps
from rewound.gateway.memory.budget import TooManyRequests
from rewound.gateway.wire.negotiate import NotAcceptable, UnknownMediaTypes, UnsupportedMediaType
from rewound.gateway.wire.protobuf.objects import NoProtobufType
from rewound.journal.errors import CannotRead, Damaged

# Limit of the whole document: it is read by people, and refusing a body must cost less than accepting it.
MAX_BYTES: Final = 64 * 1024
# An escaped character takes up to six bytes.
_MESSAGE: Final = 6_000
_TEXT: Final = 1_000
_CAUSES_BYTES: Final = 24 * 1024


def shorten(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a Status, with at most `MAX_BYTES` bytes as JSON."""
    if len(dumps(document)) <= MAX_BYTES:
        return document
    shortened = {**document, "message": _cut(document["message"], _MESSAGE)}
    if "details" in document:
        shortened["details"] = {name: _cut_detail(value) for name, value in document["details"].items()}
    return shortened


def _cut_detail(value: Any) -> Any:
    if isinstance(value, list):
        return _cut_causes(value)
    return _cut(value, _TEXT) if isinstance(value, str) else value


def _cut_causes(causes: list[dict[str, str]]) -> list[dict[str, str]]:
    kept: list[dict[str, str]] = []
    size = 0
    for index, one in enumerate(causes):
        cut = {name: _cut(text, _TEXT) for name, text in one.items()}
        size += len(dumps(cut))
        if size > _CAUSES_BYTES:
            return [*kept, {"message": f"and {len(causes) - index} more"}]
        kept.append(cut)
    return kept


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a text: messages quote a long value before they say what is wrong with it."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{text[-half:]}"


# By the reason of a validation of a policy.
_POLICY_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


class MethodNotAllowed(RequestError):
    message = "the server does not allow this method on the requested resource"

    def __init__(self, allowed: Iterable[str], message: str = "", resource: Resource | None = None) -> None:
        self.allowed = ", ".join(allowed).encode()  # the value of the Allow header
        self.message = message or self.message
        self.resource = resource  # for details; set for custom kinds only


class UnsupportedPatch(RequestError):
    message = "415: Unsupported Media Type"

    def __init__(self, accepted: Iterable[str]) -> None:
        self.accepted = accepted


class BackendUnavailable(RequestError):
    """The pod, service or node that a request is for cannot be reached; the message says what is missing."""

    def __init__(self, message: str) -> None:
        self.message = message


class BackendFailed(RequestError):
    """The connection to the target of a proxied request failed, or its response is invalid."""

    def __init__(self, message: str) -> None:
        self.message = message


class KubeletRefused(RequestError):
    """A kubelet responded with an error to a request for logs."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None) -> None:
        self.code, self.reason, self.message, self.details = code, reason, message, details


class UpgradeRequired(cause.BadRequest):
    def __init__(self) -> None:
        super().__init__("Upgrade request required")


class NoSuchPath(Exception):
    """The path is outside the API, or in a group that is not served: a 404 response in plain text."""


class Failure(msgspec.Struct, frozen=True):
    """Code, headers and content of a Status with status Failure."""

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    headers: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list)
    continue_token: str = ""

    def document(self) -> dict[str, Any]:
        metadata = {"continue": self.continue_token} if self.continue_token else {}
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
        return shorten(status)


RETRY_SOON = [(b"retry-after", b"1")]
RETRY_LATER = [(b"retry-after", b"10")]

# Reasons of failures without an error class, such as those before a request is parsed.
_REASONS = {
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
    return Failure(code, _REASONS.get(code, ""), message)


def failure_of(error: Exception) -> Failure | None:
    """The Status of an error; None for an internal error, whose text is not for the client."""
    match error:
        case cause.NotFound():
            return Failure(404, "NotFound", str(error), _details(error.resource, error.name))
        case cause.NoSuchResource():
            return Failure(404, "NotFound", str(error), {})
        case MethodNotAllowed():
            details = _details(error.resource, "") if error.resource else {}
            return Failure(405, "MethodNotAllowed", str(error), details, [(b"allow", error.allowed)])
        case cause.AlreadyExists():
            return _already_exists(error)
        case cause.Conflict():
            return Failure(409, "Conflict", str(error), _details(error.resource, error.name, error.causes))
        case cause.ApplyConflict():
            return Failure(409, "Conflict", str(error), {"causes": [_cause(one) for one in error.causes]})
        case cause.Invalid():
            details = _details(Resource(error.group, error.kind), error.name, error.causes)
            return Failure(422, "Invalid", str(error), details)
        case cause.MutationDenied():
            details = _details(error.resource, error.name, error.causes) if error.resource else {}
            return Failure(403, error.reason, str(error), details)
        case cause.PolicyDenied():
            details = _details(error.resource, error.name, error.causes) if error.resource else {}
            return Failure(_POLICY_CODES.get(error.reason, 422), error.reason, str(error), details)
        case cause.Forbidden():
            details = _details(error.resource, error.name, error.causes) if error.resource else {}
            return Failure(403, "Forbidden", str(error), details)
        case cause.VersionTooLarge():
            return _version_too_large(error)
        case cause.Expired():
            return Failure(410, "Expired", str(error), continue_token=error.fresh)
        case RequestError():
            return _failure_without_details(error)
        case Damaged() | CannotRead():
            return Failure(500, "InternalError", f"Internal error occurred: {error.public}")
        case UnknownMediaTypes():
            return Failure(406, "NotAcceptable", str(error), {})
        case NotAcceptable() | NoProtobufType():
            return Failure(406, "NotAcceptable", str(error))
        case UnsupportedMediaType():
            patches = [media for media in error.accepted if "patch+" in media]
            headers = _accept_patch(patches) if patches else []
            return Failure(415, "UnsupportedMediaType", str(error), headers=headers)
    return None


def _accept_patch(media: Iterable[str]) -> list[tuple[bytes, bytes]]:
    """RFC 5789: a 415 response to a PATCH names the patch formats that the resource takes."""
    return [(b"accept-patch", ", ".join(media).encode())]


def _failure_without_details(error: RequestError) -> Failure | None:
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
        case cause.PathTooLong():
            return Failure(414, "", str(error))
        case cause.TimedOut():
            return Failure(504, "Timeout", str(error), {"retryAfterSeconds": 1}, RETRY_SOON)
        case cause.WriteTimedOut() | cause.OutcomeUnclear():
            return Failure(504, "Timeout", str(error), {})
        case cause.EvictionRefused():
            return _eviction_refused(error)
        case cause.Unreachable() | cause.WriterUnavailable():
            return Failure(503, "ServiceUnavailable", str(error), {"retryAfterSeconds": 1}, RETRY_SOON)
        case BackendUnavailable() | cause.ShuttingDown():
            return Failure(503, "ServiceUnavailable", str(error))
        case BackendFailed():
            return Failure(500, "", str(error))
        case KubeletRefused() | cause.WebhookDenied():
            headers = _retry_after(error.details)
            return Failure(error.code, error.reason, str(error), error.details, headers)
        case cause.AuthorizationFailed() | cause.KeysUnusable() | cause.NoJson():
            return Failure(500, "InternalError", str(error))
        case (
            cause.IllTyped()
            | cause.NotANumber()
            | cause.TooManyBudgets()
            | cause.ConversionFailed()
            | cause.RequestTooLarge()
            | cause.AdmissionFailed()
            | cause.PatchFailed()
        ):
            return Failure(500, "", str(error))
        case cause.Overloaded() | TooManyRequests():
            return Failure(429, "TooManyRequests", str(error), {"retryAfterSeconds": 1}, RETRY_SOON)
        case cause.RateLimited():
            return Failure(429, "TooManyRequests", str(error), headers=RETRY_SOON)
        case cause.Exhausted() | cause.NoReplicas():
            message = str(error).removeprefix("Internal error occurred: ")
            return Failure(500, "InternalError", str(error), {"causes": [{"message": message}]})
        case cause.WebhookFailed():
            return Failure(500, "InternalError", str(error), {"causes": [{"message": error.why}]})
        case cause.StorageRefused():
            return Failure(507, "InsufficientStorage", str(error), {"retryAfterSeconds": 10}, RETRY_LATER)
    return None


def _already_exists(error: cause.AlreadyExists) -> Failure:
    details = _details(error.resource, error.name)
    if error.generated:
        details["retryAfterSeconds"] = 1
    return Failure(409, "AlreadyExists", str(error), details, RETRY_SOON if error.generated else [])


def _version_too_large(error: cause.VersionTooLarge) -> Failure:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return Failure(504, "Timeout", f"Timeout: {error}", details, RETRY_SOON)


def _eviction_refused(error: cause.EvictionRefused) -> Failure:
    details: dict[str, Any] = {
        "causes": [{"reason": one.reason, "message": one.message} for one in error.causes]
    }
    if not error.retry_after:
        return Failure(429, "TooManyRequests", str(error), details)
    details["retryAfterSeconds"] = error.retry_after
    return Failure(429, "TooManyRequests", str(error), details, _retry_after(details))


def _retry_after(details: dict[str, Any] | None) -> list[tuple[bytes, bytes]]:
    """The Retry-After header, if the details of another server's Status have retryAfterSeconds."""
    seconds = details.get("retryAfterSeconds") if details else None
    return [(b"retry-after", b"%d" % seconds)] if isinstance(seconds, int) and seconds > 0 else []


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
    entry = {"reason": one.reason, "message": one.message} if one.reason else {"message": one.message}
    if one.field:
        entry["field"] = one.field
    return entry
