"""Beside those who write and watch: one that patches, and one that lists what the watchers watch."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Sequence

from tests.robustness.client import Broken, Client, Gone
from tests.robustness.cluster import LOOPBACK, PATIENCE, TOKEN, Cluster
from tests.robustness.course import Sightings
from tests.robustness.interest import Interest
from tests.robustness.objects import COLORS, FINALIZERS, KEYS, KINDS, Document
from tests.robustness.watcher import listed

_RETRY = 0.03
_LIST_EVERY = 0.02
_MERGE = "application/merge-patch+json"
# Whatever happened to the object before, these are all that may come of a patch to it.
_MEANT = (200, 404, 409, 422)


class Bystander:
    """Does one thing again and again until it is told to leave; a server that is down is waited for."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self.leaving = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                try:
                    self._act()
                except (Gone, Broken, OSError, http.client.HTTPException):
                    time.sleep(_RETRY)
        except BaseException as error:  # told by whoever joins this thread
            self.failure = error


def patching(cluster: Cluster, chance: random.Random) -> Callable[[], None]:
    """Patches that move objects between selections, and that take finalizers away."""

    def patch() -> None:
        connection = http.client.HTTPConnection(LOOPBACK, cluster.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": _MERGE}
        key = chance.choice(KEYS)
        try:
            connection.request("PATCH", KINDS[key.plural].item(key), json.dumps(_change(chance)), headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status in _MEANT, f"patch of {key}: {answer.status} {said!r}"

    return patch


def _change(chance: random.Random) -> Document:
    match chance.choice(("color", "color", "mood", "finalizers")):
        case "color":
            return {"metadata": {"labels": {"color": chance.choice(COLORS)}}}
        case "mood":
            return {"metadata": {"labels": {"mood": chance.choice(("good", "bad", None))}}}
        case _:
            return {"metadata": {"finalizers": chance.choice(([], list(FINALIZERS[:1])))}}


def listing(
    cluster: Cluster, interests: Sequence[Interest], sightings: Sightings, chance: random.Random
) -> Callable[[], None]:
    def look() -> None:
        client = Client(cluster.port)
        try:
            sightings.listings.append(listed(client, chance.choice(interests)))
        finally:
            client.close()
        time.sleep(_LIST_EVERY)

    return look
