"""The cleaning controller: deletes certificate signing requests that nobody needs any more.

Approved, denied and failed requests an hour after that condition, pending ones a day after their creation, and every
request when the certificate in it expires. A request that is not due yet is in the queue with its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from actors.background_import import imported
from actors.certificates.signing import expiry_of
from actors.controllers.certificates.requests import RequestController
from actors.errors import Conflict, NotFound
from actors.kinds.values.times import micros_of
from actors.messages import DeleteOptions, Object

HOUR: Final = 3600
DECIDED_SECONDS: Final = HOUR
PENDING_SECONDS: Final = 24 * HOUR
_DECIDED: Final = ("Approved", "Denied", "Failed")


class CertificateCleaning(RequestController):
    name = "certificate cleaning controller"
    account = "certificate-controller"

    async def handle(self, request: Object) -> None:
        metadata, now = request["metadata"], self._clock.now() / 1_000_000
        due = min(_due_times(request))
        certificate = request["status"].get("certificate")
        if due > now and certificate:
            await imported("cryptography.x509")
            expiry = await trio.to_thread.run_sync(expiry_of, certificate, limiter=self._threads)
            due = due if expiry is None else min(due, expiry)
        if due > now:
            self.queue.add_after(metadata["name"], due - now)
            return
        unchanged = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
        try:
            await self._client.delete(self._definition, "", metadata["name"], unchanged)
        except (Conflict, NotFound):
            return  # a change leads to another call


def _due_times(request: Object) -> Iterator[float]:
    """In seconds since 1970, at least one."""
    created = micros_of(request["metadata"]["creationTimestamp"]) / 1_000_000
    decided = [one for one in request["status"].get("conditions") or () if one["type"] in _DECIDED]
    for condition in decided:
        since = condition.get("lastUpdateTime")
        # A client may send any time, but decides while the request is there and pending.
        claimed = micros_of(since) / 1_000_000 if since else created
        yield min(max(claimed, created), created + PENDING_SECONDS) + DECIDED_SECONDS
    if not decided:
        yield created + PENDING_SECONDS
