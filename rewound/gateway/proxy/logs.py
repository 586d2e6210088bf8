"""Converts a kubelet's response to a log request: text, or the Status that Kubernetes returns for an error."""

from __future__ import annotations

from typing import Any, Final

from rewound.actors.errors import BadRequest, RequestError
from rewound.actors.golang.quoting import quoted
from rewound.gateway.message import Response
from rewound.gateway.outgoing.response import Head
from rewound.gateway.pipeline.errors import BackendFailed, KubeletRefused
from rewound.gateway.proxy.forward import Adapter, Transform
from rewound.gateway.proxy.upstream import Upstream

# Limit of the kubelet's message.
_MAX_MESSAGE: Final = 50_000
# Reasons and messages by status; None: the kubelet's own message.
_ERRORS: Final[dict[int, tuple[str, str | None]]] = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", None),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", None),
    409: ("Conflict", "the server reported a conflict"),
    415: ("UnsupportedMediaType", None),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}


class LogAdapter(Adapter):
    def __init__(self, pod: str) -> None:
        self._pod = pod

    def unreachable(self, why: str, *, upgrading: bool) -> RequestError:
        return BackendFailed(f"the kubelet cannot be reached for the log of pod {self._pod}: {why}")

    async def response(self, head: Head, upstream: Upstream) -> tuple[Response, Transform | None]:
        if 300 <= head.status < 400:
            raise BackendFailed("redirects forbidden")
        if not 200 <= head.status <= 206:
            raise self._error(head.status, await _message(upstream))
        return Response(200, b"", b"text/plain"), None

    def _error(self, status: int, sent: str) -> RequestError:
        if status == 400:
            return BadRequest(sent)
        if status == 500:
            details = {"causes": [{"message": sent}]}
            return KubeletRefused(500, "InternalError", f"Internal error occurred: {sent}", details)
        reason, message = _ERRORS.get(status, ("", _unknown(status)))
        if status not in _ERRORS and status > 500:
            reason = "InternalError"
            message = f"an error on the server ({quoted(sent)}) has prevented the request from succeeding"
        shown = sent if message is None else message
        details_of: dict[str, Any] = {"name": self._pod, "kind": "pods/log"}
        return KubeletRefused(status, reason, f"{shown} ( pods/log {self._pod})", details_of)


def _unknown(status: int) -> str:
    return f"the server responded with the status code {status} but did not return more information"


async def _message(upstream: Upstream) -> str:
    read = b""
    while len(read) < _MAX_MESSAGE and (part := await upstream.read_part()):
        read += part
    return read[:_MAX_MESSAGE].decode("utf-8", "replace")
