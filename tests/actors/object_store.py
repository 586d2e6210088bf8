"""The API without HTTP: journal, actors and reads in one process, called directly.

`Verbs` is the interface of the behaviour tests: the same tests run on `Store` here and over HTTP
(`tests/gateway/api.py`). Here commands and replies go through msgpack, as between processes. Results are documents;
an error is `Refused` with the reason of a Status.

    async with open_store() as store:
        made = await store.create("configmaps", {"metadata": {"name": "a"}})
        listed = await store.list("configmaps", limit=1)
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import orjson
import trio

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.built_in import plugins
from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.selection import OFF_BY_DEFAULT
from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.errors import RequestError
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.message_encoding import (
    Crashed,
    decode_command,
    decode_reply,
    encode_command,
    encode_reply,
)
from rewound.actors.messages import Command, Create, Delete, DeleteOptions, Outcome, Replace
from rewound.actors.names import CLUSTER
from rewound.actors.resource.collection import Warned, delete_collection
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.large_work import LargeWork
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.selectors import FieldSelector, LabelSelector
from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.actors.store.reads import Horizon, ListOptions, Reads
from rewound.gateway.pipeline import options
from rewound.journal.log import Journal

START = 1_700_000_000_000_000
WATCH_HISTORY = 300
Document = dict[str, Any]

_REASONS = {
    "VersionTooLarge": "Timeout",
    "TimedOut": "Timeout",
    "WriteTimedOut": "Timeout",
    "Overloaded": "TooManyRequests",
    "StorageRefused": "InsufficientStorage",
}


class Refused(Exception):
    """A request was refused. `fresh` is the continue token in a 410."""

    def __init__(self, reason: str, message: str, fresh: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message, self.fresh = reason, message, fresh


class ManualClock:
    """Wall time that stands still until a test advances it."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1_000_000)


class Verbs(Protocol):
    """The operations of every implementation. A namespace of None means all namespaces."""

    clock: ManualClock

    async def create(
        self, plural: str, body: Document, namespace: str = "default", **query: Any
    ) -> Document: ...

    async def replace(
        self, plural: str, body: Document, namespace: str = "default", **query: Any
    ) -> Document: ...

    async def get(self, plural: str, name: str, namespace: str = "default", **query: Any) -> Document: ...

    async def list(self, plural: str, namespace: str | None = "default", **query: Any) -> Document: ...

    async def delete(
        self, plural: str, name: str, namespace: str = "default", body: Document | None = None, **query: Any
    ) -> Document: ...

    async def delete_collection(self, plural: str, namespace: str = "default", **query: Any) -> None: ...

    async def restart(self) -> None: ...


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory where the machine has one: most tests are not about durability."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="rewound-", dir=shared if shared.is_dir() else None) as name:
        yield Path(name)


@cache
def _catalog() -> Catalog:
    """One catalog for all tests: schemas are compiled once, and declarations never change."""
    return built_in(CLUSTER)


class Store:
    """Implements `Verbs` with messages to actors and calls of reads."""

    def __init__(self, folder: Path, clock: ManualClock, *added: Plugin) -> None:
        self._folder = folder
        self._added = added  # plugins that run after those of a server
        self.clock = clock
        self.catalog = _catalog()
        self.write_contexts = WriteContexts(clock)

    async def start(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._tasks = trio.CancelScope()
        self.journal = Journal.open(self._folder / "journal")
        self.journal.register_types(self.catalog.stored_types())
        self.feed = Feed(self.journal.head, self.journal)
        self.committer = Committer(self.journal, self.feed)
        self.registry = Registry(self.catalog, self.committer.register_types)
        self.supervisor = Supervisor()
        admission = Admission((*self._plugins(), *self._added))
        inner = self.nursery = await nursery.start(self._tend)
        inner.start_soon(self.committer.run)
        self.calls = AdmissionCalls()
        # Steps have no time limit: what is decided in one batch must not depend on the machine.
        shared = ActorContext(
            self.journal, self.committer, admission, self.calls, LargeWork(), inner, longest_step=math.inf
        )
        self.directory = Directory(self.registry, self.supervisor, inner, shared)
        horizon = Horizon(self.journal, self.clock, WATCH_HISTORY * 1_000_000)
        self.reads = Reads(self.journal, self.feed, horizon, self.clock)
        await Bootstrap(
            CLUSTER, self.catalog, self.journal, self.directory, self.write_contexts
        ).create_namespaces()

    def _plugins(self) -> tuple[Plugin, ...]:
        rbac = Rbac(stored_policy(CLUSTER, self.journal, self.feed))
        available = plugins(PluginContext(CLUSTER, self.journal, self.feed, AlwaysAllow(), rbac))
        return tuple(one for one in available if one.name not in OFF_BY_DEFAULT)

    async def _tend(self, task_status: trio.TaskStatus[trio.Nursery]) -> None:
        with self._tasks:
            async with trio.open_nursery() as inner:
                task_status.started(inner)
                await trio.sleep_forever()

    def stop(self) -> None:
        self._tasks.cancel()
        self.journal.close()

    async def restart(self) -> None:
        self.stop()
        await self.start(self._nursery)

    def definition(self, plural: str) -> Definition:
        return next(one for one in self.catalog.definitions if one.plural == plural)

    async def create(self, plural: str, body: Document, namespace: str = "default", **query: Any) -> Document:
        definition = self.definition(plural)
        generates = "generateName" in body["metadata"]
        command = Create(
            definition.api_version,
            namespace if definition.namespaced else "",
            self._decoded(definition, body),
            self.write_contexts.new("user", "manager", suffix=generates),
            query.get("dryRun") == "All",
        )
        return await self._ask(definition, command)

    async def replace(
        self, plural: str, body: Document, namespace: str = "default", **query: Any
    ) -> Document:
        definition = self.definition(plural)
        command = Replace(
            definition.api_version,
            namespace if definition.namespaced else "",
            body["metadata"]["name"],
            self._decoded(definition, body),
            self.write_contexts.new("user", "manager"),
            query.get("subresource", ""),
            dry_run=query.get("dryRun") == "All",
            may_create=True,
        )
        return await self._ask(definition, command)

    async def get(self, plural: str, name: str, namespace: str = "default", **query: Any) -> Document:
        definition = self.definition(plural)
        where = namespace if definition.namespaced else ""
        with _refusals():
            await self.reads.wait_for_version(str(query.get("resourceVersion", "")))
            return _document(self.reads.get(definition, where, name))

    async def list(self, plural: str, namespace: str | None = "default", **query: Any) -> Document:
        definition = self.definition(plural)
        with _refusals():
            listing = await self.reads.listing(definition, namespace, _list_options(query))
        metadata: Document = {"resourceVersion": str(listing.version)}
        if listing.token:
            metadata["continue"] = listing.token
        if listing.remaining:
            metadata["remainingItemCount"] = listing.remaining
        return {"metadata": metadata, "items": [_document(body) for body in listing.bodies]}

    async def delete(
        self, plural: str, name: str, namespace: str = "default", body: Document | None = None, **query: Any
    ) -> Document:
        definition = self.definition(plural)
        command = Delete(
            definition.api_version,
            namespace if definition.namespaced else "",
            name,
            self.write_contexts.new("user", "manager"),
            self._delete_options(body, query),
        )
        return await self._ask(definition, command)

    async def delete_collection(self, plural: str, namespace: str = "default", **query: Any) -> None:
        definition = self.definition(plural)
        await delete_collection(
            self.reads,
            self.directory,
            definition,
            namespace,
            _list_options(query),
            self._delete_options(None, query, many=True),
            self.write_contexts.new("user", "manager"),
            Warned(),
        )

    def _delete_options(self, body: Document | None, query: Document, *, many: bool = False) -> DeleteOptions:
        sent = {name: [str(value)] for name, value in query.items()}
        with _refusals():
            return options.delete_options(CLUSTER, body, sent, many=many)

    def _decoded(self, definition: Definition, body: Document) -> Document:
        return definition.schema.decode_json(orjson.dumps(body)).object

    async def _ask(self, definition: Definition, command: Command) -> Document:
        with _refusals():
            return _document((await ask_encoded(self.directory, definition, command)).body)


async def ask_encoded(directory: Directory, definition: Definition, command: Command) -> Outcome:
    """As from another process: command and reply are encoded and decoded."""
    arrived = decode_command(encode_command(command, trio.current_time()), trio.current_time())
    result: Outcome | Exception
    try:
        result = await directory.ask(definition, arrived)
    except Exception as error:
        result = error
    reply = decode_reply(encode_reply(result, arrived.context), command.context)
    if isinstance(reply, Exception):
        assert isinstance(result, Exception)
        raise result if isinstance(reply, Crashed) else reply  # a bug keeps its traceback
    return reply


def _list_options(query: Document) -> ListOptions:
    version, match = str(query.get("resourceVersion", "")), query.get("resourceVersionMatch", "")
    limit, token = query.get("limit", 0), query.get("continue", "")
    labels, fields = query.get("labelSelector"), query.get("fieldSelector")
    options.list_options(CLUSTER, version, match, token)
    return ListOptions(
        version,
        match,
        limit,
        token,
        LabelSelector.parse(labels) if labels else None,
        FieldSelector.parse(fields) if fields else None,
    )


def _document(body: bytes) -> Document:
    parsed: Document = orjson.loads(body)
    return parsed


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        name = type(error).__name__
        raise Refused(_REASONS.get(name, name), str(error), getattr(error, "fresh", "")) from error


@asynccontextmanager
async def open_store(*added: Plugin) -> AsyncIterator[Store]:
    with memory_folder() as folder:
        store = Store(folder, ManualClock(), *added)
        async with trio.open_nursery() as nursery:
            await store.start(nursery)
            try:
                yield store
            finally:
                store.stop()
