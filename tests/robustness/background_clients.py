"""Clients that run beside the writers and watchers: one patches, one lists what the watchers watch."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Sequence

from tests.robustness.client import Client, ConnectionBroken, ServerGone
from tests.robustness.cluster import LOOPBACK, TIMEOUT, TOKEN, Cluster
from tests.robustness.interest import Interest
from tests.robustness.objects import COLORS, FINALIZERS, KEYS, KINDS, Document
from tests.robustness.observations import Observations
from tests.robustness.watching_client import listed

_RETRY_SECONDS = 0.03
_LIST_EVERY = 0.02
_MERGE = "application/merge-patch+json"
# All statuses that a patch may get, in any state of the object.
_VALID_STATUSES = (200, 404, 409, 422)


class BackgroundClient:
    """Repeats one request until `leaving` is set; retries while the server is down."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self.leaving = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                try:
                    self._act()
                except (ServerGone, ConnectionBroken, OSError, http.client.HTTPException):
                    time.sleep(_RETRY_SECONDS)
        except BaseException as error:  # raised by the thread that joins this one
            self.failure = error


def patching(cluster: Cluster, rng: random.Random) -> Callable[[], None]:
    """Patches that move objects between selectors, and that remove finalizers."""

    def patch() -> None:
        connection = http.client.HTTPConnection(LOOPBACK, cluster.port, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": _MERGE}
        key = rng.choice(KEYS)
        try:
            connection.request("PATCH", KINDS[key.plural].item(key), json.dumps(_change(rng)), headers)
            response = connection.getresponse()
            output = response.read()
        finally:
            connection.close()
        assert response.status in _VALID_STATUSES, f"patch of {key}: {response.status} {output!r}"

    return patch


def _change(rng: random.Random) -> Document:
    match rng.choice(("color", "color", "mood", "finalizers")):
        case "color":
            return {"metadata": {"labels": {"color": rng.choice(COLORS)}}}
        case "mood":
            return {"metadata": {"labels": {"mood": rng.choice(("good", "bad", None))}}}
        case _:
            return {"metadata": {"finalizers": rng.choice(([], list(FINALIZERS[:1])))}}


def listing(
    cluster: Cluster, interests: Sequence[Interest], observations: Observations, rng: random.Random
) -> Callable[[], None]:
    def look() -> None:
        client = Client(cluster.port)
        try:
            observations.listings.append(listed(client, rng.choice(interests)))
        finally:
            client.close()
        time.sleep(_LIST_EVERY)

    return look
