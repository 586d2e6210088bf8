"""Serves a journal over HTTP, read-only: a recording at a position that moves, or one that grows (`rewound flight`).

Everything but the listeners and their connections is built for a position (`Instance`): caches, custom kinds, watch
groups. Events that the player publishes bring an instance forward, as commits do in an ordinary server. Going back
builds a new one, to which the listeners pass requests from then on; the watches of the old one end with 410, so that
clients list again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio
from msgspec.structs import replace

from rewound.actors.access.authorize import NO_OPINION, Attributes, Decision, Rules, Verdict
from rewound.actors.identity import User
from rewound.actors.names import NAMES
from rewound.actors.runtime.clock import Clock
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.gateway.watch.member import CLOSE_TIMEOUT
from rewound.journal.log import Journal
from rewound.journal.recording import Recording
from rewound.journal.records import Event
from rewound.server.api_server import ApiServer
from rewound.server.extensions import Extensions
from rewound.server.open_store import memory_budget, read_only_store

Announce = Callable[[Addresses], None]


@dataclass(frozen=True, slots=True)
class Instance:
    store: Store
    server: ApiServer
    scope: trio.CancelScope  # of its tasks


Begin = Callable[[Instance, trio.Nursery], None]


def _nothing(instance: Instance, nursery: trio.Nursery) -> None:
    """The instance needs nothing beside it."""


class ReadOnlyServer:
    """Serves a journal that something else writes or moves; which instance serves can change while it runs."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        clock: Clock,
        extensions: Extensions,
        begin: Begin = _nothing,
    ) -> None:
        """`begin` is called with every instance and its nursery, before it serves."""
        self._settings = settings
        self._journal = journal
        self._clock = clock
        self._memory = memory_budget(settings)
        self._extensions = extensions
        self._begin = begin
        self._nursery: trio.Nursery | None = None
        self._first: Instance | None = None  # whose listeners serve
        self._instance: Instance | None = None

    @property
    def instance(self) -> Instance:
        assert self._instance is not None, "the server runs"
        return self._instance

    def publish(self, events: list[Event]) -> None:
        """Pass events that have become durable to reads and watches."""
        if self._instance is not None:  # otherwise its store will read them
            self._instance.store.feed.publish(events)

    async def run(self, announce: Announce, stop: trio.Event) -> None:
        """Serve until `stop` is set."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._first = await nursery.start(self._run_instance, None)
            addresses = await nursery.start(self._first.server.serve)
            announce(addresses)
            await stop.wait()
            await self.instance.server.hub.close()
            await self._first.server.stop()
            nursery.cancel_scope.cancel()

    async def replace(self, settings: Settings) -> None:
        """Serve later requests with other settings; open watches end."""
        self._settings = settings
        await self._replace()

    async def _replace(self) -> None:
        assert self._nursery is not None
        before = self.instance
        await self._nursery.start(self._run_instance, before.server)
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
                settings, self._journal, self._clock, self._memory, nursery, self._extensions
            )
            try:
                server = ApiServer(settings, store, nursery, self._extensions, predecessor)
                instance = Instance(store, server, nursery.cancel_scope)
                self._begin(instance, nursery)
                server.health.finish_start()
                self._instance = (
                    instance  # without a checkpoint since the store was built: it misses no event
                )
                task_status.started(instance)
                # Each instance has metrics of its own, also the one that takes the place of another.
                with server.watch_loop():
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


class ReplayServer(ReadOnlyServer):
    def __init__(
        self, settings: Settings, recording: Recording, clock: Clock, extensions: Extensions
    ) -> None:
        authorizers = (ReadOnlyAuthorizer(), *extensions.authorizers)
        super().__init__(settings, recording, clock, replace(extensions, authorizers=authorizers))
        self._recording = recording

    async def go_back(self, position: int) -> None:
        """Go to an earlier position: later requests read it, open watches end."""
        later = self._recording.position
        self._recording.position = position
        try:
            await self._replace()
        except BaseException:
            self._recording.position = later
            raise


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

    not_running = NOT_RUNNING

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.is_resource and attributes.subresource in _FORWARDED:
            return self.not_running
        return NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


class ReadOnlyAuthorizer(NotRunningAuthorizer):
    """Refuses writes to a replay, too."""

    read_only = READ_ONLY

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.is_resource and attributes.verb in _WRITES and not _is_review(attributes):
            return self.not_running if attributes.subresource in _FORWARDED else self.read_only
        return super().authorize(attributes)


def _is_review(attributes: Attributes) -> bool:
    return (attributes.group, attributes.resource) in _REVIEW_RESOURCES
