"""A collection that is watched while a few of its objects are written: where, from which version, by whom.

Every workload of watches has one of its own, so that nobody's events are somebody else's.
"""

from __future__ import annotations

import copy
import json

from benchmarks.loads.client import Client
from benchmarks.servers.files import shortage
from benchmarks.servers.site import Site
from benchmarks.servers.target import Target
from benchmarks.watchers.controller import Audience
from benchmarks.watchers.pool import OBJECTS, watched_object
from benchmarks.watchers.requests import PAYLOAD, Assignment
from benchmarks.workloads.workload import Skipped

GROUPS = 16


class Scene:
    def __init__(self, site: Site, purpose: str) -> None:
        self._writer = site.target
        self._site = site
        self.path = site.config_maps(purpose)
        with Client(self._writer) as client:
            for number in range(OBJECTS):
                # Numbers that the writers do not reach: their first replacement must be a change, too.
                made = watched_object(f"w-{number:02}", 90_000_000 + number, PAYLOAD)
                client.expect("POST", self.path, json.loads(made))

    def at(self, site: Site) -> Scene:
        """The same collection on a server that has been started again."""
        again = copy.copy(self)
        again._site, again._writer = site, site.target
        return again

    def audience(self, *, tls: bool, watchers: int) -> Audience:
        missing = shortage(watchers)
        if missing:
            raise Skipped(missing)
        door = self._site.door(tls=tls)
        if door is None:
            raise Skipped(f"this server is not known to listen {'with' if tls else 'without'} TLS")
        return Audience(Assignment(door, self._writer, self.path))

    def version(self) -> str:
        return str(self._site.get(f"{self.path}?limit=1")["metadata"]["resourceVersion"])

    def watches(self, *, groups: int = 1, version: str = "") -> tuple[str, ...]:
        """Paths to watch from a version or from now; each group has a selector of its own that all objects match."""
        path = f"{self.path}?watch=1&resourceVersion={version or self.version()}"
        if groups == 1:
            return (path,)
        return tuple(f"{path}&labelSelector=shard%21%3Dnone-{number}" for number in range(groups))

    @property
    def object(self) -> tuple[Target, str]:
        """One to get meanwhile."""
        return self._writer, f"{self.path}/w-00"
