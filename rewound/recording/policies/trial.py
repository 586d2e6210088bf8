"""Tries admission policies on recorded writes: what they would have refused, warned of, annotated or changed.

    async with trying(path, given, version) as trial:
        async for write in trial.writes(after, to): write.findings

The plugins of a server evaluate the policies, so nothing here decides otherwise. Namespaces, parameters, roles and
custom kinds are those of the moment before each write, because the recording moves along. Only what is given, policies
with their bindings and maybe parameters, is there all the time; policies of the recording are not.

What a journal does not have is taken like this:
- the version in which a client wrote a built-in kind: the preferred one. Policies match equivalent versions by default;
- the subresource: status, if only the status changed and the kind has that subresource;
- the groups of users: those that every user and every service account has.
A mutating policy gets the object as it was stored, after all plugins of that time.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import trio

from rewound.actors.admission.policies.plugin import PolicyPlugin, Tried
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.identity import AUTHENTICATED, SERVER_USER, User
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object, WriteContext
from rewound.actors.names import NAMES
from rewound.actors.store.document import encode_unversioned, facts_of
from rewound.client.errors import Failure
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.recording import LimitedView, Recording
from rewound.journal.records import Event, Row
from rewound.journal.view import View
from rewound.recording.query.folder import Kinds
from rewound.recording.replay.player import ReplayClock
from rewound.recording.replay.replay import FOR_EVER, WEBHOOKS
from rewound.server.extensions import NO_EXTENSIONS
from rewound.server.open_store import memory_budget, read_only_store

BATCH_EVENTS, BATCH_BYTES = 256, 1 << 20
_ACCOUNTS: Final = "system:serviceaccount:"
_POLICIES: Final = tuple(
    f"{kind}admissionpolic{ending}" for kind in ("validating", "mutating") for ending in ("ies", "ybindings")
)
_DELETES: Final = ("delete", "deletecollection")


class TriedRecording(Recording):
    """A recording with other policies, and with further parameters."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.given: dict[int, dict[tuple[str, str], Row]] = {}  # type -> namespace and name -> object
        self.replaced: frozenset[int] = frozenset()  # types of which only the given objects exist

    def read(self) -> View:
        return self.read_all() if self.position == MAX_OFFSET else _TriedView(self)


class _TriedView(LimitedView):
    __slots__ = ("_tried",)

    def __init__(self, tried: TriedRecording) -> None:
        super().__init__(tried.environment, tried.checked, tried.versions, tried.position)
        self._tried = tried

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        tried = self._tried
        found = tried.given.get(type_id, {}).get((namespace, name))
        if found is not None or type_id in tried.replaced:
            return found
        return super().get(type_id, namespace, name)

    def rows(
        self,
        type_id: int,
        namespace: str | None = None,
        after: tuple[str, str] | None = None,
        wanted: int | None = None,
    ) -> Iterator[tuple[str, str, Row]]:
        tried = self._tried
        given = tried.given.get(type_id, {})
        for key, row in sorted(given.items()):
            if namespace in (None, key[0]) and (after is None or key > after):
                yield *key, row
        if type_id not in tried.replaced:
            for where, name, row in super().rows(type_id, namespace, after, wanted):
                if (where, name) not in given:
                    yield where, name, row


@dataclass(frozen=True, slots=True)
class Write:
    """A recorded write, and what each policy that matches would have done."""

    event: Event
    kind: str
    operation: str
    tried: tuple[Tried, ...]


class Trial:
    def __init__(self, recording: TriedRecording, store: Store, clock: ReplayClock) -> None:
        self._recording, self._store, self._clock = recording, store, clock
        self._plugins = [one for one in store.plugins if isinstance(one, PolicyPlugin)]
        self._types = {number: name for name, number in recording.types().items()}
        self.writes_checked = 0

    async def matched(self, after: int, to: int) -> AsyncIterator[Write]:
        """The writes of clients after a version, up to another one, that some policy matches."""
        recording, feed = self._recording, self._store.feed
        while batch := recording.following(BATCH_EVENTS, BATCH_BYTES):
            for event in batch:
                if event.offset > to:
                    return
                self._clock.time = event.time
                is_policy = event.type_id in recording.replaced
                if event.offset > after and not is_policy and event.user != SERVER_USER:
                    self.writes_checked += 1
                    write = await self._try(event)
                    if write is not None:
                        yield write
                recording.position = event.offset
                if not is_policy:
                    feed.publish([event])
            await trio.lowlevel.checkpoint()

    async def _try(self, event: Event) -> Write | None:
        found = self._store.registry.current.stored_type(self._types.get(event.type_id, ""))
        if found is None or not found.served:
            return None  # its definition is gone: the write is that of a controller which removes the objects
        with self._recording.read() as view:
            row = view.get(event.type_id, event.namespace, event.name)
        stored = None if row is None else _stored(row.body)
        request = _request(event, found.served, stored)
        tried = [one for plugin in self._plugins for one in await plugin.try_each(request)]
        if not tried:
            return None
        return Write(event, request.definition.kind, request.operation, tuple(tried))


def _stored(body: bytes) -> Object:
    parsed: Object = orjson.loads(body)
    return parsed


def _request(event: Event, served: Sequence[Definition], old: Object | None) -> AdmissionRequest:
    """The request that may have made an event."""
    new: Object | None = _stored(event.body)
    assert new is not None
    definition, old_version = served[0], ""
    if definition.storage.versions is not None:
        version = str(new.pop("apiVersion", ""))
        definition = next((one for one in served if one.api_version == version), definition)
        old_version = str(old.pop("apiVersion", "")) if old is not None else ""
    operation, subresource = CREATE if old is None else UPDATE, ""
    if event.verb in _DELETES:
        operation, old, new = DELETE, old or new, None
    elif event.removed:
        old = old or new  # an update that removed the last finalizer
    elif old is not None and new is not None and _is_of_status(definition, old, new):
        subresource = "status"
    caller = User(event.user, groups=_groups(event.user))
    context = WriteContext(event.time, event.user, event.manager, "", "", caller)
    request = AdmissionRequest(
        operation,
        definition,
        event.namespace,
        event.name,
        subresource,
        new,
        old,
        event.user,
        dry_run=False,
        context=context,
    )
    request.written = event.previous
    request.old_version = old_version
    return request


def _is_of_status(definition: Definition, old: Object, new: Object) -> bool:
    if definition.subresource("status") is None or old.get("status") == new.get("status"):
        return False
    return all(old.get(name) == new.get(name) for name in {*old, *new} - {"status", "metadata"})


def _groups(user: str) -> tuple[str, ...]:
    if not user.startswith(_ACCOUNTS):
        return (AUTHENTICATED,)
    namespace = user[len(_ACCOUNTS) :].partition(":")[0]
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)


@asynccontextmanager
async def trying(
    recording: TriedRecording, given: Sequence[Object], version: str, after: int = 0, gates: str = ""
) -> AsyncIterator[Trial]:
    """Try policies. `given` are documents of policies, bindings and parameters, which a server would accept."""
    with tempfile.TemporaryDirectory(prefix="rewound-") as temporary:
        settings = Settings(
            data_dir=Path(temporary),
            dialect=recording.dialect,
            kubernetes_version=version,
            feature_gates=gates,
            authorization_mode="RBAC",
            anonymous_auth=False,
            disable_admission_plugins=WEBHOOKS,
            enable_priority_and_fairness=False,
            watch_history=FOR_EVER,
            journal_retention=None,
        )
        catalog = built_in(NAMES[recording.dialect], settings.release, settings.enablement, settings.rules)
        recording.register_types(catalog.stored_types())
        give(recording, catalog, given)
        recording.replaced = frozenset(
            number for name, number in recording.types().items() if name.partition(".")[0] in _POLICIES
        )
        with recording.read_all() as view:
            recording.position = max(after, view.floor)
        clock = ReplayClock(recording.time)
        async with trio.open_nursery() as nursery:
            store = read_only_store(
                settings, recording, clock, memory_budget(settings), nursery, NO_EXTENSIONS
            )
            try:
                yield Trial(recording, store, clock)
            finally:
                store.aggregated.close()
                nursery.cancel_scope.cancel()


def give(recording: TriedRecording, catalog: Catalog, documents: Sequence[Object]) -> None:
    """Add objects to a recording that are there all the time. Raises Failure for one of an unknown kind."""
    custom = Kinds(recording)
    for number, document in enumerate(documents):
        api_version, kind = str(document["apiVersion"]), str(document["kind"])
        definition = catalog.of_kind(api_version, kind) or custom.of_kind(api_version, kind)
        if definition is None:
            raise Failure(f"{api_version} {kind} is not a kind of the journal; leave it out")
        stored = definition.schema.decode_object(document).object
        if definition.storage.conversion is not None:
            stored = definition.storage.conversion.to_storage(stored)
        metadata = stored["metadata"]
        namespace = metadata.setdefault("namespace", "default") if definition.namespaced else ""
        metadata.setdefault("uid", "")
        storage = definition if definition.is_custom else catalog.storage(definition.type_name)
        facts = facts_of(storage, stored)
        body = encode_unversioned(stored, api_version if definition.is_custom else "")
        row = Row(number + 1, facts, body)
        objects = recording.given.setdefault(recording.type_id(definition.type_name), {})
        objects[namespace, metadata["name"]] = row
