"""Calls webhooks: POSTs a JSON document over HTTPS and returns the body of the response.

Connections are reused. A call is bounded in time (30 s per try, or less), in size of the response and in number (100 at
once, others wait). Cancelling the caller cancels the call. There are two forms, as in Kubernetes:

- Token and access reviews (`send`) are tried up to five times: after connection errors, 429, 500,
  504, and every response with a Retry-After header. Everything else fails at once, also a timeout: another try would
  rarely be faster.
- Calls of admission and conversion (`ask`, `send_once`) have one time limit for everything. They follow redirects, and
  are repeated when a response 429 or 5xx says after how many seconds. Credentials never go to another host, and nothing
  goes over plain HTTP.

`run` closes the connections when the server stops.
"""

from __future__ import annotations

import base64
import random
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import trio

from rewound.actors.access.remote.calls import FIRST_DELAY, DocumentError, MakeBody, WebhookError
from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.access.remote.kubeconfig_file import User
from rewound.actors.access.remote.slots import Slots
from rewound.actors.access.remote.target import Target
from rewound.actors.runtime.trace_context import passed_on
from rewound.actors.runtime.turns import SharedTurns
from rewound.gateway.outgoing.client import HttpsClient
from rewound.gateway.outgoing.connections import InvalidUrl, cause_of
from rewound.gateway.outgoing.response import Response, ResponseError, ResponseTooLarge

TRY_SECONDS: Final = 30.0
TRIES: Final = 5
DELAY_FACTOR: Final = 1.5
JITTER: Final = 0.2
MAX_RETRY_AFTER: Final = 30.0
MAX_RESPONSE: Final = 1 << 20
# A response may echo the review with other escapes, and have a base64 patch that replaces an object of maximum size.
ECHOES, LARGEST_PATCH = 2, 5 << 20
MAX_REQUESTS: Final = 10  # redirects of one call
MAX_RETRIES: Final = 10  # after Retry-After
# More connections would not make a slow webhook faster, and clients need the file descriptors.
MAX_CALLS: Final = 100
TOKEN_FILE_SECONDS: Final = 60.0  # seconds between two reads of a token file
_RETRIED: Final = frozenset({429, 500, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REPEATS_POST: Final = frozenset({307, 308})

_ACCEPTED: Final = {
    "accept": "application/json",
    "user-agent": "rewound",
    "accept-encoding": "identity",  # the size of the response is limited as it arrives
}

T = TypeVar("T")
Call = Callable[[bytes, str, int, float], Awaitable[bytes]]  # (body, URL, largest response, deadline)


Observe = Callable[[str, float], None]


class _TimedOut(WebhookError):
    pass


@dataclass(slots=True)
class _Retriable(Exception):
    error: WebhookError
    delay: float = 0.0  # seconds, from Retry-After


class HttpsCalls:
    """The `Calls` of a server."""

    def __init__(self) -> None:
        self._turns = SharedTurns()

    def webhook(self, target: Target) -> HttpsWebhook:
        return HttpsWebhook(target, self._turns)

    async def fetch(self, url: str, tls: ssl.SSLContext, largest: int, bearer_token: str = "") -> bytes:
        """Get the document at a URL over a new connection. Raises DocumentError."""
        headers = {**_ACCEPTED, "authorization": f"Bearer {bearer_token}"} if bearer_token else _ACCEPTED
        try:
            response = await HttpsClient(tls, max_idle=0).request(url, headers, b"", largest, method="GET")
        except InvalidUrl:
            raise DocumentError(f"{url} cannot be used") from None
        except ResponseTooLarge:
            raise DocumentError(f"{url} has more than {largest} bytes") from None
        except (OSError, ResponseError) as error:
            raise DocumentError(f"{url}: {_shown(error)}") from None
        if response.status != 200:
            raise DocumentError(f"{url} responds with status {response.status}")
        return response.body


class HttpsWebhook:
    """A `Webhook` that is called by POST."""

    def __init__(
        self,
        target: Target,
        turns: SharedTurns | None = None,
        *,
        seconds: float = TRY_SECONDS,
        observe: Observe | None = None,
    ) -> None:
        """`seconds` is the limit of one try of `send`; `observe` gets its result, as metrics name it, and duration."""
        self._seconds, self._observe = seconds, observe
        self._slots = Slots(MAX_CALLS, Deadlines(), turns)
        self._use(target)

    def replace(self, target: Target) -> None:
        """Call another target from now on. Calls under way continue."""
        before = self._client
        self._use(target)
        before.close()

    def _use(self, target: Target) -> None:
        self._target = target
        self._client = HttpsClient(
            target.tls, server_name=target.server_name, proxy_url=target.proxy_url, max_idle=MAX_CALLS
        )
        self._token, self._token_expires = "", float("-inf")
        self._fixed_headers = _headers_for(target)
        self._authorized = "authorization" in self._fixed_headers

    @property
    def display_url(self) -> str:
        return self._target.display_url

    def ask(self, make: MakeBody, url: str, seconds: float) -> Coroutine[Any, Any, bytes]:
        """The body of the response, within so many seconds, at another URL with the same TLS identity.

        The body is built when the call starts, so that calls that wait for a slot do not hold one. Not a coroutine,
        because many calls may wait.
        """
        return self._try(make, url, seconds, call=self._call_repeatedly)

    async def send_once(self, body: bytes, url: str, seconds: float, largest: int) -> bytes:
        """The body of the response, of at most so many bytes and within so many seconds."""
        return await self._try(lambda: body, url, seconds, largest, call=self._call_repeatedly)

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return self._slots.idle

    async def send(
        self, body: bytes, first_delay: float = FIRST_DELAY, *, after_any_error: bool = False
    ) -> bytes:
        """The body of the response. Raises WebhookError if no try succeeds.

        `after_any_error` retries also after errors that usually persist.
        """
        delay = first_delay
        for _ in range(TRIES - 1):
            asked = 0.0
            try:
                return await self._try_once(body)
            except _Retriable as failed:
                asked = failed.delay
            except WebhookError:
                if not after_any_error:
                    raise
            await trio.sleep(max(delay * (1 + JITTER * random.random()), asked))
            delay *= DELAY_FACTOR
        try:
            return await self._try_once(body)
        except _Retriable as failed:
            raise failed.error from None

    async def _try_once(self, body: bytes) -> bytes:
        if self._observe is None:
            return await self._try(lambda: body, seconds=self._seconds)
        started, result = perf_counter(), "canceled"
        try:
            reply = await self._try(lambda: body, seconds=self._seconds)
            result = "success"
        except _TimedOut:
            result = "timeout"
            raise
        except _Retriable as failed:
            result = "timeout" if failed.error.code == 504 else "error"
            raise
        except WebhookError:
            result = "error"
            raise
        finally:
            self._observe(result, perf_counter() - started)
        return reply

    async def run(self) -> None:
        """Pool connections until cancelled, then close them."""
        try:
            await trio.sleep_forever()
        finally:
            self.close()

    def close(self) -> None:
        """Close idle connections, and pool none from now on."""
        self._client.close()

    def _error(self, why: str) -> WebhookError:
        return WebhookError(f"{self._target.display_url}: {why}")

    async def _try(
        self,
        make: MakeBody,
        url: str = "",
        seconds: float = TRY_SECONDS,
        largest: int = 0,
        call: Call | None = None,
    ) -> bytes:
        """`largest`: bytes of the response; 0 for as many as the body suggests."""
        deadline = trio.current_time() + seconds
        try:
            if not self._slots.take_nowait():
                await self._slots.take(deadline)
            try:
                made = make()
                body = made if isinstance(made, bytes) else await _before(deadline, made)
                return await (call or self._call)(body, url or self._target.url, largest, deadline)
            finally:
                self._slots.release()
        except TooSlow:
            if call is not None:
                raise WebhookError(f'Post "{self._shown_url(url)}": context deadline exceeded') from None
            raise _TimedOut(f"{self._target.display_url}: did not respond within {seconds:g} s") from None

    def _shown_url(self, url: str) -> str:
        """The URL of a call, with the name of the service whose address is called."""
        parts = urlsplit(url)
        return parts._replace(netloc=self._target.host or parts.netloc.rpartition("@")[2]).geturl()

    async def _call(self, body: bytes, url: str, largest: int, deadline: float) -> bytes:
        response = await self._request("POST", url, self._headers(), body, largest or MAX_RESPONSE, deadline)
        if not 200 <= response.status <= 206:
            raise self._status_error(response)
        return response.body

    async def _call_repeatedly(self, body: bytes, url: str, largest: int, deadline: float) -> bytes:
        """As `_call`, but follow redirects, and repeat the request when a response has Retry-After."""
        largest = largest or ECHOES * len(body) + LARGEST_PATCH
        try:
            for left in range(MAX_RETRIES, -1, -1):
                response = await self._follow(body, url, largest, deadline)
                delay = _asked_delay(response)
                if delay is None or not left:
                    break
                if trio.current_time() + delay >= deadline:
                    raise TooSlow
                await trio.sleep(delay)
            if not 200 <= response.status <= 206:
                raise self._status_error(response)
        except _Retriable as failed:
            raise failed.error from None
        return response.body

    async def _follow(self, body: bytes, url: str, largest: int, deadline: float) -> Response:
        """The response, after following redirects."""
        method, headers, shown, called = "POST", self._headers(), "", url
        for _ in range(MAX_REQUESTS):
            response = await self._request(method, url, headers, body, largest, deadline)
            location = response.fields.get(b"location", b"").decode("latin-1")
            if response.status not in _REDIRECTS or not location:
                return response
            if response.status not in _REPEATS_POST:
                method, body = "GET", b""
            try:
                # Redirects are resolved against the service's name; the call goes to its address.
                shown = urljoin(shown or self._shown_url(url), location)
                parts, own = urlsplit(shown), urlsplit(self._shown_url(called)).netloc
            except ValueError:
                raise self._error("redirects to a URL that cannot be used") from None
            known = parts.netloc == own
            url = parts._replace(netloc=urlsplit(called).netloc).geturl() if known else shown
            headers = self._headers() if known else _headers_for(self._target, known=False)
        raise self._error(f"stopped after {MAX_REQUESTS} redirects")

    async def _request(
        self, method: str, url: str, headers: dict[str, str], body: bytes, largest: int, deadline: float
    ) -> Response:
        try:
            return await self._client.request(url, headers, body, largest, deadline, method)
        except InvalidUrl:
            raise self._error("the URL cannot be used") from None
        except (ResponseTooLarge, ssl.SSLError) as error:
            # Another try would get the same certificate or response.
            raise self._error(str(error)) from None
        except (OSError, ResponseError) as error:
            # Connection errors name the address, and contain no credentials.
            raise _Retriable(self._error(_shown(error))) from None

    def _headers(self) -> dict[str, str]:
        trace = passed_on()
        return {**self._own_headers(), **trace} if trace else self._own_headers()

    def _own_headers(self) -> dict[str, str]:
        path = self._target.user.token_file
        if path is None or self._authorized:
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
        error.code = response.status
        retry_after = response.fields.get(b"retry-after", b"")
        if retry_after.isdigit():
            return _Retriable(error, min(float(retry_after[:9]), MAX_RETRY_AFTER))
        return _Retriable(error) if response.status in _RETRIED else error


def _asked_delay(response: Response) -> float | None:
    """The seconds in Retry-After; None without it."""
    retry_after = response.fields.get(b"retry-after", b"")
    if (response.status == 429 or response.status >= 500) and retry_after.isdigit():
        return float(retry_after[:9])
    return None


def _headers_for(target: Target, *, known: bool = True) -> dict[str, str]:
    """The headers of every call, except a token from a file. Only a `known` host, the target's, gets credentials."""
    headers = {"content-type": "application/json", **_ACCEPTED}
    if target.host and known:
        headers["host"] = target.host
    if (authorization := _authorization(target.user)) and known:
        headers["authorization"] = authorization
    return headers


def _authorization(user: User) -> str:
    """The Authorization header; "" if the kubeconfig user has neither token nor password."""
    if user.token:
        return f"Bearer {user.token}"
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


async def _before(deadline: float, work: Awaitable[T]) -> T:
    with trio.CancelScope(deadline=deadline):
        return await work
    raise TooSlow


def _shown(error: Exception) -> str:
    if isinstance(error, OSError) and (cause := cause_of(error)) is not error and cause.strerror:
        return f"{error}: {cause.strerror.lower()}"
    return str(error) or type(error).__name__
