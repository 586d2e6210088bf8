"""The HTTPS clients of webhooks: one for each address, CA bundle and user, cached with its connections.

The first call creates a client; calls that begin meanwhile wait for it. The number of clients is bounded: the one that
was idle for longest is closed.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import Coroutine
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from rewound.actors.access.remote.address import Addressed, cleaned_path, cleaned_url
from rewound.actors.access.remote.calls import Calls, MakeBody, Webhook, WebhookError
from rewound.actors.access.remote.kubeconfig_file import KubeconfigError, User
from rewound.actors.access.remote.shared_calls import SharedCalls
from rewound.actors.access.remote.target import Target
from rewound.actors.admission.webhooks.credentials import WebhookCredentials
from rewound.actors.admission.webhooks.services import Services, Unresolved
from rewound.actors.certificates.trust import InvalidBundle, verifying

MAX_CLIENTS: Final = 128

_Key = tuple[str, int, bool, bytes]  # host and port, whether it is a service, CA bundle


class WebhookClients:
    def __init__(self, services: Services, credentials: WebhookCredentials, calls: Calls) -> None:
        self._services = services
        self._calls = calls
        self._credentials = credentials
        self._clients: OrderedDict[_Key, Webhook] = OrderedDict()
        # Hundreds of writes may need the same new client: a thread and a TLS context for each would take megabytes.
        self._created: SharedCalls[_Key, Webhook] = SharedCalls()

    def ask(self, hook: Addressed, make: MakeBody) -> Coroutine[Any, Any, bytes]:
        """The body of the webhook's response. WebhookError if there is none.

        `make` makes the body when the call can begin. To a URL no coroutine of its own, because many calls may wait.
        """
        webhook = self._clients.get(_key_of(hook)) if hook.service is None else None
        if webhook is None:
            return self._ask_client(hook, make)
        self._used(_key_of(hook))
        return webhook.ask(make, f"{_url_of(hook)}?timeout={hook.seconds}s", hook.seconds)

    async def _ask_client(self, hook: Addressed, make: MakeBody) -> bytes:
        url, webhook = await self._client(hook)
        return await webhook.ask(make, f"{url}?timeout={hook.seconds}s", hook.seconds)

    async def send(self, webhook: Addressed, body: bytes, largest: int) -> bytes:
        """The body of the response, which may have so many bytes. WebhookError if there is none."""
        url, client = await self._client(webhook)
        seconds = webhook.seconds
        return await client.send_once(body, f"{url}?timeout={seconds}s", seconds, largest)

    async def run(self) -> None:
        """Keep connections until cancelled, then close them."""
        try:
            await trio.sleep_forever()
        finally:
            for webhook in list(self._clients.values()):
                webhook.close()

    async def _url(self, hook: Addressed) -> str:
        """The URL to call."""
        if hook.service is None:
            return _url_of(hook)
        try:
            dialled = await self._services.resolve(hook.service)
        except Unresolved as error:
            raise WebhookError(str(error)) from None
        return f"https://{dialled}{cleaned_path(hook.url)}"

    async def _client(self, hook: Addressed) -> tuple[str, Webhook]:
        """The URL to call, and the client for it."""
        url, key = await self._url(hook), _key_of(hook)
        known = self._clients.get(key)
        if known is None:
            created = await self._created.result(key, partial(self._create, key, hook, url))
            known = self._clients.setdefault(key, created)
        self._used(key)
        return url, known

    def _used(self, key: _Key) -> None:
        self._clients.move_to_end(key)
        if len(self._clients) > MAX_CLIENTS:
            self._close_idle()

    async def _create(self, key: _Key, hook: Addressed, url: str) -> Webhook:
        host, port = key[:2]
        user = self._credentials.user(host, port)
        # In a thread: to load the roots of the system takes tens of milliseconds.
        tls = await trio.to_thread.run_sync(partial(self._tls, hook.ca_bundle, user))
        return self._calls.webhook(_target(hook, url, host, port, tls, user))

    def _close_idle(self) -> None:
        idle = next((key for key, one in self._clients.items() if one.idle), None)
        if idle is not None:
            self._clients.pop(idle).close()

    def _tls(self, ca_bundle: bytes, user: User) -> ssl.SSLContext:
        try:
            context = verifying(ca_bundle or None)
        except InvalidBundle as error:
            raise WebhookError(str(error)) from None
        try:
            self._credentials.identify(context, user)
        except KubeconfigError as error:
            raise WebhookError(str(error)) from None
        return context


def _key_of(hook: Addressed) -> _Key:
    """Host and port as the certificate and the credentials name them, and what else its client depends on."""
    if hook.service is not None:
        return hook.service.host, hook.service.port, True, hook.ca_bundle
    try:
        return *_host_and_port(hook.url), False, hook.ca_bundle
    except ValueError:
        raise WebhookError("the URL cannot be used") from None


def _url_of(hook: Addressed) -> str:
    try:
        return cleaned_url(hook.url)
    except ValueError:
        raise WebhookError("the URL cannot be used") from None


@lru_cache(maxsize=512)
def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 443


def _target(hook: Addressed, url: str, host: str, port: int, tls: ssl.SSLContext, user: User) -> Target:
    shown = f"[{host}]" if ":" in host else host
    name = shown if port == 443 else f"{shown}:{port}"
    return Target(
        url,
        f"https://{name}",
        tls,
        host if hook.service is not None else "",
        "",
        user,
        name if hook.service is not None else "",
    )
