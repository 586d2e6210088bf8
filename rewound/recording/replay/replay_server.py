"""Serves a recording over HTTP, read-only, at a position that moves.

Everything but the listeners and their connections is built for a position (`Instance`): caches, custom kinds, watch
groups. Events that the player publishes bring an instance forward, as commits do in an ordinary server. Going back
builds a new one, to which the listeners pass requests from then on; the watches of the old one end with 410, so that
clients list again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import trio

from rewound.actors.access.authorize import NO_OPINION, Attributes, Decision, Rules, Verdict
from rewound.actors.identity import User
from rewound.actors.names import NAMES
from rewound.actors.runtime.clock import Clock
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.gateway.watch.member import CLOSE_TIMEOUT
from rewound.journal.recording import Recording
from rewound.server.api_server import ApiServer
from rewound.server.extensions import Extensions
from rewound.server.open_store import memory_budget, read_only_store

Announce = Callable[[Addresses], None]


@dataclass(frozen=True, slots=True)
class Instance:
    store: Store
    server: ApiServer
    scope: trio.CancelScope  # of its tasks


class ReplayServer:
    def __init__(
        self, settings: Settings, recording: Recording, clock: Clock, extensions: Extensions
    ) -> None:
        self._settings = settings
        self._recording = recording
        self._clock = clock
        self._memory = memory_budget(settings)
        self._extensions = replace(extensions, authorizers=(ReadOnlyAuthorizer(), *extensions.authorizers))
        self._nursery: trio.Nursery | None = None
        self._first: Instance | None = None  # whose listeners serve
        self._instance: Instance | None = None

    @property
    def instance(self) -> Instance:
        assert self._instance is not None, "the server runs"
        return self._instance

    async def run(self, announce: Announce, stop: trio.Event) -> None:
        """Serve until `stop` is set."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._first = self._instance = await nursery.start(self._run_instance, None)
            addresses = await nursery.start(self._first.server.serve)
            announce(addresses)
            await stop.wait()
            await self.instance.server.hub.close()
            await self._first.server.stop()
            nursery.cancel_scope.cancel()

    async def go_back(self, position: int) -> None:
        """Go to an earlier position: later requests read it, open watches end."""
        assert self._nursery is not None
        before, later = self.instance, self._recording.position
        self._recording.position = position
        try:
            self._instance = await self._nursery.start(self._run_instance, before.server)
        except BaseException:
            self._recording.position = later
            raise
        before.server.hub.expire()
        self._nursery.start_soon(self._close, before)

    async def _run_instance(
        self,
        predecessor: ApiServer | None,
        task_status: trio.TaskStatus[Instance] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        settings = self._settings
        async with trio.open_nursery() as nursery:
            store = read_only_store(
                settings, self._recording, self._clock, self._memory, nursery, self._extensions
            )
            try:
                server = ApiServer(settings, store, nursery, self._extensions, predecessor)
                server.health.finish_start()
                task_status.started(Instance(store, server, nursery.cancel_scope))
                await trio.sleep_forever()
            finally:
                store.aggregated.close()

    @staticmethod
    async def _close(instance: Instance) -> None:
        """End the tasks of an instance when its watches have ended."""
        with trio.move_on_after(CLOSE_TIMEOUT):
            while instance.server.hub.watchers():
                await trio.sleep(CLOSE_TIMEOUT / 100)
        instance.scope.cancel()


_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Resources whose creates only get a response; custom kinds may have the same names in other groups.
_REVIEWS = {
    "tokenreviews": "authentication",
    "subjectaccessreviews": "authorization",
    "localsubjectaccessreviews": "authorization",
    "selfsubjectaccessreviews": "authorization",
    "selfsubjectrulesreviews": "authorization",
}
_REVIEW_RESOURCES = frozenset(
    (names.group(group), resource) for names in NAMES.values() for resource, group in _REVIEWS.items()
)
_FORWARDED = frozenset({"proxy", "exec", "attach", "portforward", "log"})

READ_ONLY = Decision(
    Verdict.DENY,
    "this server replays a journal and only reads it; `rewound replay --writable` writes to a copy",
)
NOT_RUNNING = Decision(Verdict.DENY, "this server replays a journal: its pods, services and nodes do not run")


class NotRunningAuthorizer:
    """Refuses connections to pods, services and nodes; comes before all other authorizers, also for administrators."""

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.is_resource and attributes.subresource in _FORWARDED:
            return NOT_RUNNING
        return NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


class ReadOnlyAuthorizer(NotRunningAuthorizer):
    """Refuses writes to a replay, too."""

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.is_resource and attributes.verb in _WRITES and not _is_review(attributes):
            return NOT_RUNNING if attributes.subresource in _FORWARDED else READ_ONLY
        return super().authorize(attributes)


def _is_review(attributes: Attributes) -> bool:
    return (attributes.group, attributes.resource) in _REVIEW_RESOURCES
