"""What actors need of calls to other servers: ask a webhook with a document, within a time, and get its reply.

The gateway implements `Calls` (`gateway/outgoing`) and hands it in. How a call travels (connections, media types,
status codes, redirects, further tries) is its business: here a call has a reply or a `WebhookError` that says what
failed. There are two forms of calls, as in Kubernetes: `send` is tried several times, `ask` and `send_once` have one
time limit for everything.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

import orjson

from rewound.actors.access.remote.slots import Slots
from rewound.actors.access.remote.target import Target
from rewound.actors.errors import TooLarge
from rewound.actors.golang.json import dumps
from rewound.actors.runtime.value_count import COUNTED_BYTES, check_values

FIRST_DELAY: Final = 0.5  # seconds between the first two tries
MOST_VALUES: Final = (
    20_000  # in the reply to a review: some milliseconds of parsing; groups and extra fields of users
)

MakeBody = Callable[[], bytes | Awaitable[bytes]]


class WebhookError(Exception):
    """The webhook could not be called, or its response cannot be used. The text has no credentials in it."""

    code = 0  # with which the webhook refused the call, for metrics; 0 if it did not respond


class Webhook(Protocol):
    """Calls one webhook over connections that it keeps."""

    @property
    def display_url(self) -> str:
        """The webhook in errors and logs."""

    @property
    def queue(self) -> Slots:
        """For callers that wait before they begin: as many as have a slot here find one for their call."""

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""

    async def send(
        self, body: bytes, first_delay: float = FIRST_DELAY, *, after_any_error: bool = False
    ) -> bytes:
        """The reply, whatever it is. WebhookError if there is none after all tries.

        `after_any_error` tries again also if another call would usually fail in the same way.
        """

    def ask(
        self, make: MakeBody, url: str, seconds: float, since: float | None = None
    ) -> Coroutine[Any, Any, bytes]:
        """The reply, within so many seconds, at another URL with the same TLS identity.

        The body is made when the call can begin, so that those that wait for others do not hold one. `since` is when
        the caller began to wait in `queue`, if it did.
        """

    async def send_once(self, body: bytes, url: str, seconds: float, largest: int) -> bytes:
        """The reply, of at most so many bytes and within so many seconds."""

    async def run(self) -> None:
        """Keep connections until cancelled, then close them."""

    def close(self) -> None:
        """Close all connections that are idle; a further call opens new ones."""


class DocumentError(Exception):
    """There is no document at a URL, or it cannot be had; the text says why and names the URL."""


class Calls(Protocol):
    def webhook(self, target: Target) -> Webhook: ...

    async def fetch(self, url: str, tls: ssl.SSLContext, largest: int) -> bytes:
        """The document at an https URL, of at most so many bytes. DocumentError.

        Redirects are not followed, and the caller bounds the time.
        """


class NoCalls:
    """For tools and tests that make no calls."""

    def webhook(self, target: Target) -> Webhook:
        raise WebhookError(f"{target.display_url}: no webhooks are called here")

    async def fetch(self, url: str, tls: ssl.SSLContext, largest: int) -> bytes:
        raise DocumentError(f"{url}: nothing is fetched here")


NO_CALLS: Final = NoCalls()


async def review(
    webhook: Webhook, api_version: str, kind: str, spec: dict[str, Any], *, first_delay: float = FIRST_DELAY
) -> dict[str, Any]:
    """The status with which the webhook completes a review. The reply must have the version of the request."""
    document = {"apiVersion": api_version, "kind": kind, "spec": spec}
    reply = _object(webhook, await webhook.send(dumps(document), first_delay))
    if reply.get("apiVersion") != api_version:
        raise _error(webhook, f"responded with apiVersion {reply.get('apiVersion')!r}, not {api_version!r}")
    if reply.get("kind", kind) != kind:
        raise _error(webhook, f"responded with kind {reply.get('kind')!r}, not {kind!r}")
    status = reply.get("status", {})
    if not isinstance(status, dict):
        raise _error(webhook, "responded with a status that is not an object")
    return status


def _object(webhook: Webhook, reply: bytes) -> dict[str, Any]:
    try:
        if len(reply) > COUNTED_BYTES:
            check_values(reply, MOST_VALUES)
        value = orjson.loads(reply)
    except TooLarge:
        raise _error(webhook, f"the response has more than {MOST_VALUES} values") from None
    except orjson.JSONDecodeError:
        raise _error(webhook, "the response is not JSON") from None
    if not isinstance(value, dict):
        raise _error(webhook, "the response is not a JSON object")
    return value


def _error(webhook: Webhook, why: str) -> WebhookError:
    return WebhookError(f"{webhook.display_url}: {why}")
