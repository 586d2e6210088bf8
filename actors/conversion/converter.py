"""Calls the conversion webhooks of custom kinds: one ConversionReview for all objects of a batch.

A call is made once and takes 30 seconds at most. Its response may be four times as long as the request and 1 MiB more;
a long one is parsed and checked in a worker thread. Whoever needs the result waits for it, and nobody else.
"""

from __future__ import annotations

import base64
import binascii
from time import perf_counter
from typing import Final, Protocol

import trio

from actors.access.remote.address import ServiceAddress, WebhookAddress
from actors.access.remote.calls import WebhookError
from actors.conversion.review import Batch
from actors.conversion.timings import ConversionTimings
from actors.errors import ConversionFailed
from actors.kinds.declaration.definition import Versions
from actors.large_work import LARGE_BYTES
from actors.messages import Object
from actors.names import Names
from actors.store.document import api_version_of
from actors.write_context import new_uid

SECONDS: Final = 30
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
LARGEST_RESPONSE: Final = 1 << 20


class Clients(Protocol):
    async def send(self, webhook: WebhookAddress, body: bytes, largest: int) -> bytes:
        """The body of the response. WebhookError."""


class NoClients:
    """In place of clients, where a server must not call webhooks."""

    async def send(self, webhook: WebhookAddress, body: bytes, largest: int) -> bytes:
        raise WebhookError("this server replays a journal and calls no webhooks of the recorded cluster")


class Converter:
    def __init__(self, names: Names, clients: Clients) -> None:
        self._group = names.group("apiextensions")
        self._clients = clients
        self.timings = ConversionTimings()
        # One: more threads would only take turns with the interpreter lock.
        self._thread = trio.CapacityLimiter(1)

    async def convert(
        self, versions: Versions, documents: list[bytes], target: str, *, listed: bool = False
    ) -> list[bytes]:
        """Objects in another version, in the same order. ConversionFailed.

        `documents` are stored objects in other versions than `target`. `listed`: they are a part of a list.
        """
        batch = Batch(versions, documents, target, listed)
        batch.check_versions()
        began = perf_counter()
        succeeded = False
        try:
            converted = await self._call(batch)
            succeeded = True
        finally:
            versions_used = api_version_of(documents[0]), target
            self.timings.called(versions.name, *versions_used, succeeded, perf_counter() - began)
        return converted

    async def _call(self, batch: Batch) -> list[bytes]:
        webhook = batch.versions.webhook
        assert webhook is not None
        version = next((one for one in webhook["conversionReviewVersions"] if one in REVIEW_VERSIONS), None)
        if version is None:
            raise ConversionFailed("no supported conversion review versions")
        api_version, uid = f"{self._group}/{version}", new_uid()
        body = batch.review(api_version, uid)
        try:
            raw = await self._clients.send(
                address_of(webhook["clientConfig"]), body, 4 * len(body) + LARGEST_RESPONSE
            )
        except WebhookError as error:
            raise ConversionFailed(f"conversion webhook for {batch.shown} failed: {error}") from None
        if len(raw) + len(body) <= LARGE_BYTES:
            return batch.results(api_version, uid, raw)
        return await trio.to_thread.run_sync(batch.results, api_version, uid, raw, limiter=self._thread)


def address_of(config: Object) -> WebhookAddress:
    """Where a webhook is, from its clientConfig."""
    try:
        bundle = base64.b64decode(config.get("caBundle") or "").strip()
    except (binascii.Error, ValueError):
        bundle = b""
    service = config.get("service")
    if service is None:
        return WebhookAddress(config.get("url", ""), None, bundle, SECONDS)
    address = ServiceAddress(service["namespace"], service["name"], service.get("port", 443))
    return WebhookAddress(service.get("path", ""), address, bundle, SECONDS)
