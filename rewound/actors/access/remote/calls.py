"""The interface for calls to other servers: send a document to a webhook, within a time limit, and get its reply.

The gateway implements `Calls` (`gateway/outgoing`): connections, media types, status codes, redirects and retries. Here
a call has a reply, or a `WebhookError` that says what failed. There are two kinds of calls, as in Kubernetes: `send`
retries, `ask` and `send_once` have one time limit for everything.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import orjson

from rewound.actors.access.remote.target import Target
from rewound.actors.errors import TooLarge
from rewound.actors.golang.json import dumps
from rewound.actors.runtime.large_work import COUNTED_BYTES, check_values

FIRST_DELAY: Final = 0.5  # seconds between the first two attempts
# In the reply to a review: some milliseconds of parsing; groups and extra fields of users.
MOST_VALUES: Final = 20_000

MakeBody = Callable[[], bytes | Awaitable[bytes]]


class WebhookError(Exception):
    """The webhook could not be called, or its response cannot be used. The text contains no credentials."""

    code = 0  # status code with which the webhook rejected the call, for metrics; 0 if it did not respond


class Reviewer(Protocol):
    """Whoever answers reviews: a webhook, or an API server."""

    @property
    def display_url(self) -> str:
        """Its address in errors and logs."""

    async def send(
        self, body: bytes, first_delay: float = FIRST_DELAY, *, after_any_error: bool = False
    ) -> bytes:
        """The reply, whatever it is. Raises WebhookError if there is none after all attempts.

        `after_any_error` also retries errors that usually repeat.
        """


class Webhook(Reviewer, Protocol):
    """Calls one webhook over pooled connections."""

    @property
    def idle(self) -> bool:
        """Whether no call is in progress."""

    def ask(self, make: MakeBody, url: str, seconds: float) -> Coroutine[Any, Any, bytes]:
        """The reply, within this many seconds, from another URL with the same TLS identity.

        The body is created when the call can start, so that waiting calls do not hold one.
        """

    async def send_once(self, body: bytes, url: str, seconds: float, largest: int) -> bytes:
        """The reply, of at most this many bytes and within this many seconds."""

    async def run(self) -> None:
        """Keep connections until cancelled, then close them."""

    def close(self) -> None:
        """Close all idle connections; a further call opens new ones."""


class DocumentError(Exception):
    """The document at a URL does not exist or cannot be fetched; the text says why and names the URL."""


class Calls(Protocol):
    def webhook(self, target: Target) -> Webhook: ...

    async def fetch(self, url: str, tls: ssl.SSLContext, largest: int, bearer_token: str = "") -> bytes:
        """The document at an https URL, of at most this many bytes. Raises DocumentError if it cannot be fetched.

        Redirects are not followed, and the caller bounds the time.
        """


class NoCalls:
    """For tools and tests that make no calls."""

    def webhook(self, target: Target) -> Webhook:
        raise WebhookError(f"{target.display_url}: no webhooks are called here")

    async def fetch(self, url: str, tls: ssl.SSLContext, largest: int, bearer_token: str = "") -> bytes:
        raise DocumentError(f"{url}: nothing is fetched here")


NO_CALLS: Final = NoCalls()


async def review(
    reviewer: Reviewer,
    api_version: str,
    kind: str,
    spec: dict[str, Any],
    *,
    first_delay: float = FIRST_DELAY,
) -> dict[str, Any]:
    """The status that the reviewer sets in a review. The reply must have the version of the request."""
    document = {"apiVersion": api_version, "kind": kind, "spec": spec}
    reply = _object(reviewer, await reviewer.send(dumps(document), first_delay))
    if reply.get("apiVersion") != api_version:
        raise _error(reviewer, f"responded with apiVersion {reply.get('apiVersion')!r}, not {api_version!r}")
    if reply.get("kind", kind) != kind:
        raise _error(reviewer, f"responded with kind {reply.get('kind')!r}, not {kind!r}")
    status = reply.get("status", {})
    if not isinstance(status, dict):
        raise _error(reviewer, "responded with a status that is not an object")
    return status


def _object(reviewer: Reviewer, reply: bytes) -> dict[str, Any]:
    try:
        if len(reply) > COUNTED_BYTES:
            check_values(reply, MOST_VALUES)
        value = orjson.loads(reply)
    except TooLarge:
        raise _error(reviewer, f"the response has more than {MOST_VALUES} values") from None
    except orjson.JSONDecodeError:
        raise _error(reviewer, "the response is not JSON") from None
    if not isinstance(value, dict):
        raise _error(reviewer, "the response is not a JSON object")
    return value


def _error(reviewer: Reviewer, why: str) -> WebhookError:
    return WebhookError(f"{reviewer.display_url}: {why}")
