"""Outgoing calls: POSTs a JSON document to a webhook over HTTPS and returns the JSON object of the response.

Used for token, access and admission reviews; connections are reused, and redirects are not followed. A call is bounded
in time (30 s per try, or less), in size (a response of more than 1 MiB is a failure) and in number (100 at once, others
wait). It is tried up to five times, admission reviews once: after connection errors, 429, 500, 504, and every response
with a Retry-After header, as Kubernetes does. Everything else fails at once, also a call that took too long: another
try would rarely be faster. Cancelling the caller cancels the call.

`run` closes the connections when the server stops.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import trio

from actors.access.remote.deadlines import Deadlines
from actors.access.remote.http_response import Response, ResponseError, ResponseTooLarge
from actors.access.remote.https_client import HttpsClient, InvalidUrl
from actors.access.remote.slots import Slots
from actors.access.remote.target import Target
from actors.access.remote.tls_stream import TooSlow
from actors.go_json import dumps
from journal.classes.dataclass import dataclass

TRY_SECONDS: Final = 30.0
TRIES: Final = 5
FIRST_DELAY: Final = 0.5
DELAY_FACTOR: Final = 1.5
JITTER: Final = 0.2
MAX_RETRY_AFTER: Final = 30.0
MAX_RESPONSE: Final = 1 << 20
# More connections would not make a slow webhook faster, and file descriptors belong to clients first.
MAX_CALLS: Final = 100
TOKEN_FILE_SECONDS: Final = 60.0  # how long the contents of a token file are used before it is read again
_RETRIED: Final = frozenset({429, 500, 504})

T = TypeVar("T")
MakeBody = Callable[[], bytes | Awaitable[bytes]]


class WebhookError(Exception):
    """The webhook could not be called, or its response cannot be used. The text has no credentials in it."""

    status = 0  # of the response, if there is one


@dataclass(slots=True)
class _Retriable(Exception):
    error: WebhookError
    delay: float = 0.0  # seconds, from Retry-After


class Webhook:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._client = HttpsClient(
            target.tls, server_name=target.server_name, proxy_url=target.proxy_url, kept=MAX_CALLS
        )
        deadlines = Deadlines()
        self._slots = Slots(MAX_CALLS, deadlines)
        # For callers that wait before they begin: as many as have a slot here find one for their call.
        self.queue = Slots(MAX_CALLS, deadlines)
        self._token, self._token_expires = "", float("-inf")
        self._fixed_headers = _headers_for(target)

    async def post(self, document: Any, first_delay: float = FIRST_DELAY) -> dict[str, Any]:
        """The object that the webhook responds with. WebhookError if there is none after all tries."""
        return self._object(await self.send(dumps(document), first_delay))

    async def ask(
        self, make: MakeBody, url: str, seconds: float, since: float | None = None
    ) -> dict[str, Any]:
        """Like `post`, with a single try of at most so many seconds, at another URL with the same TLS identity.

        The body is made when the call can begin, so that those that wait for others do not hold one. `since` is when
        the caller began to wait in `queue`, if it did.
        """
        try:
            return self._object(await self._try(make, url, seconds, since=since))
        except _Retriable as failed:
            raise failed.error from None

    async def send_once(self, body: bytes, url: str, seconds: float, largest: int) -> bytes:
        """Like `send`, with a single try of at most so many seconds, and a response of so many bytes."""

        try:
            return await self._try(lambda: body, url, seconds, largest)
        except _Retriable as failed:
            raise failed.error from None

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return self._slots.idle

    async def send(
        self, body: bytes, first_delay: float = FIRST_DELAY, *, after_any_error: bool = False
    ) -> bytes:
        """The body of the response, whatever it is. WebhookError if there is no success after all tries.

        `after_any_error` tries again also if another call would usually fail in the same way.
        """
        delay = first_delay
        for _ in range(TRIES - 1):
            asked = 0.0
            try:
                return await self._try(lambda: body)
            except _Retriable as failed:
                asked = failed.delay
            except WebhookError:
                if not after_any_error:
                    raise
            await trio.sleep(max(delay * (1 + JITTER * random.random()), asked))
            delay *= DELAY_FACTOR
        try:
            return await self._try(lambda: body)
        except _Retriable as failed:
            raise failed.error from None

    async def review(
        self, api_version: str, kind: str, spec: dict[str, Any], *, first_delay: float = FIRST_DELAY
    ) -> dict[str, Any]:
        """The status with which the webhook completes a review. The response must have the version of the request."""
        response = await self.post({"apiVersion": api_version, "kind": kind, "spec": spec}, first_delay)
        if response.get("apiVersion") != api_version:
            raise self._error(
                f"responded with apiVersion {response.get('apiVersion')!r}, not {api_version!r}"
            )
        if response.get("kind", kind) != kind:
            raise self._error(f"responded with kind {response.get('kind')!r}, not {kind!r}")
        status = response.get("status", {})
        if not isinstance(status, dict):
            raise self._error("responded with a status that is not an object")
        return status

    async def run(self) -> None:
        """Keep connections until cancelled, then close them."""
        try:
            await trio.sleep_forever()
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections that are idle; a further call opens new ones."""
        self._client.close()

    def _error(self, why: str) -> WebhookError:
        return WebhookError(f"{self._target.shown}: {why}")

    async def _try(
        self,
        make: MakeBody,
        url: str = "",
        seconds: float = TRY_SECONDS,
        largest: int = MAX_RESPONSE,
        since: float | None = None,
    ) -> bytes:
        now = trio.current_time()
        deadline = (now if since is None else since) + seconds
        try:
            if deadline <= now:
                raise TooSlow
            if not self._slots.take_nowait():
                await self._slots.take(deadline)
            try:
                made = make()
                body = made if isinstance(made, bytes) else await _before(deadline, made)
                return await self._call(body, url or self._target.url, largest, deadline)
            finally:
                self._slots.release()
        except TooSlow:
            raise self._error(f"did not respond within {seconds:g} s") from None

    def _object(self, raw: bytes) -> dict[str, Any]:
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise self._error("the response is not JSON") from None
        if not isinstance(value, dict):
            raise self._error("the response is not a JSON object")
        return value

    async def _call(self, body: bytes, url: str, largest: int, deadline: float) -> bytes:
        try:
            response = await self._client.post(url, self._headers(), body, largest, deadline)
        except InvalidUrl:
            raise self._error("the URL cannot be used") from None
        except (ResponseTooLarge, ssl.SSLError) as error:
            # Neither a certificate nor a response becomes another one by another try.
            raise self._error(str(error)) from None
        except (OSError, ResponseError) as error:
            # Connection errors name the address: they have no credentials in them.
            raise _Retriable(self._error(_shown(error))) from None
        if not 200 <= response.status <= 206:
            raise self._status_error(response)
        return response.body

    def _headers(self) -> dict[str, str]:
        path = self._target.token_file
        if path is None or self._target.authorization:
            return self._fixed_headers
        token = self._token_of(path)
        return {**self._fixed_headers, "authorization": f"Bearer {token}"} if token else self._fixed_headers

    def _token_of(self, path: Path) -> str:
        now = trio.current_time()
        if now >= self._token_expires:
            try:
                self._token = path.read_text().strip()
            except (OSError, UnicodeDecodeError):
                raise self._error(f"cannot read the token file {path}") from None
            self._token_expires = now + TOKEN_FILE_SECONDS
        return self._token

    def _status_error(self, response: Response) -> Exception:
        error = self._error(f"responded with status {response.status}")
        error.status = response.status
        retry_after = response.fields.get(b"retry-after", b"")
        if retry_after.isdigit():
            return _Retriable(error, min(float(retry_after[:9]), MAX_RETRY_AFTER))
        return _Retriable(error) if response.status in _RETRIED else error


def _headers_for(target: Target) -> dict[str, str]:
    """Those of every call, without a token that is in a file."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json",
        "user-agent": "rewound",
        "accept-encoding": "identity",  # the size of the response is limited as it arrives
    }
    if target.host:
        headers["host"] = target.host
    if target.authorization:
        headers["authorization"] = target.authorization
    return headers


async def _before(deadline: float, work: Awaitable[T]) -> T:
    with trio.CancelScope(deadline=deadline):
        return await work
    raise TooSlow


def _shown(error: Exception) -> str:
    """What happened, also if trio tried several addresses."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, OSError) and cause.strerror:
        return f"{error}: {cause.strerror.lower()}"
    return str(error) or type(error).__name__
