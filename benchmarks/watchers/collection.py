"""A collection whose objects are written while clients watch it.

Every watch workload has its own collection, so that its watchers get no events of other workloads.
"""

from __future__ import annotations

import copy
import json

from benchmarks.loads.client import Client
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.files import shortage
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.watchers.commands import PAYLOAD, Assignment
from benchmarks.watchers.pool import OBJECTS, watched_object
from benchmarks.watchers.watcher_process import WatcherProcess
from benchmarks.workloads.workload import Skipped

GROUPS = 16


class WatchedCollection:
    def __init__(self, server: MeasuredServer, purpose: str) -> None:
        self._writer = server.endpoint
        self._server = server
        self.path = server.config_maps(purpose)
        with Client(self._writer) as client:
            for number in range(OBJECTS):
                # Numbers that the writers never use, so that the first replacement of an object is a change, too.
                body = watched_object(f"w-{number:02}", 90_000_000 + number, PAYLOAD)
                client.expect("POST", self.path, json.loads(body))

    def on(self, server: MeasuredServer) -> WatchedCollection:
        """The same collection on a restarted server."""
        collection = copy.copy(self)
        collection._server, collection._writer = server, server.endpoint
        return collection

    def start_watchers(self, *, tls: bool, sockets: int) -> WatcherProcess:
        """A process that can open this many connections; raises `Skipped` when this machine or server cannot."""
        missing = shortage(sockets)
        if missing:
            raise Skipped(missing)
        endpoint = self._server.endpoint_for(tls=tls)
        if endpoint is None:
            raise Skipped(f"this server is not known to listen {'with' if tls else 'without'} TLS")
        return WatcherProcess(Assignment(endpoint, self._writer, self.path))

    def version(self) -> str:
        return str(self._server.get(f"{self.path}?limit=1")["metadata"]["resourceVersion"])

    def watches(self, *, groups: int = 1, version: str = "") -> tuple[str, ...]:
        """Paths to watch from a version or from now; each group has its own selector, which all objects match."""
        path = f"{self.path}?watch=1&resourceVersion={version or self.version()}"
        if groups == 1:
            return (path,)
        return tuple(f"{path}&labelSelector=shard%21%3Dnone-{number}" for number in range(groups))

    @property
    def object(self) -> tuple[Endpoint, str]:
        """Endpoint and path of one object, for gets during deliveries."""
        return self._writer, f"{self.path}/w-00"
