"""Runs the whole server in the test's event loop, with a client that sends requests over real sockets.

    async with served() as api:
        response = await api.ask("GET", "/api/v1/namespaces")

`Api` also has the methods of `Verbs` in `tests/actors/object_store.py`, so that one test runs on the actors and over
HTTP: `@everywhere` runs a test with both. The wall clock moves only when a test moves it. The kernel chooses ports, and
data is in memory.
"""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import orjson
import pytest
import trio

from rewound.actors.etcd.api import Compare, Operation, Put, TxnResult
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import NAMES
from rewound.actors.store.committer import Committer
from rewound.actors.store.etcd.records import Keys
from rewound.gateway.settings.cluster import ClusterSettings
from rewound.gateway.settings.settings import LOOPBACK, Addresses, Settings
from rewound.gateway.store import Store
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from rewound.server.run import run
from rewound.testing.controlled import install_controls
from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.object_store import Document, ManualClock, Refused, Verbs, memory_folder, open_store
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.gateway.initial_data import (
    SECURE_PORT,
    copy_initial_data,
    initial_data_for,
    is_kept,
    keep_initial_data,
)
from tests.gateway.plain_client import PlainClient, is_plain
from tests.settling import settled

ON_ETCD = os.environ.get("REWOUND_TESTS_ETCD") == "memory"
ADMIN, ALICE = "admin-token", "alice-token"
TOKENS = f'{ADMIN},admin,1,"system:masters"\n{ALICE},alice,2,"devs"\n'
# Shared, because creating a context reads the system's CAs, which takes longer than a whole test.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class AnyPort(Settings):
    """Settings whose port 1 means any free port: a port that a test finds free may be taken a moment later."""

    __slots__ = ()

    @property
    def insecure(self) -> tuple[str, int] | None:
        return (
            (LOOPBACK, 0 if self.insecure_port == 1 else self.insecure_port) if self.insecure_port else None
        )

    @property
    def secure(self) -> tuple[str, int] | None:
        return (LOOPBACK, 0) if self.secure_port else None


def settings(folder: Path, **changed: Any) -> AnyPort:
    tokens = folder / "tokens.csv"
    tokens.write_text(TOKENS)
    given: dict[str, Any] = {
        "data_dir": folder / "data",
        "secure_port": 0,
        "insecure_port": 1,
        "token_auth_file": tokens,
    }
    return AnyPort(**{**given, **changed})


@dataclass(frozen=True)
class ApiResponse:
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def document(self) -> Document:
        parsed: Document = orjson.loads(self.body)
        return parsed

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def warnings(self) -> list[str]:
        return self.headers.get_list("warning")

    def expect(self, status: int) -> Document:
        """The document of a response that must have this status; else the test fails with the body."""
        assert self.status == status, self.text[:2000]
        return self.document


@dataclass
class Api:
    """A running server and a client for it."""

    settings: Settings
    clock: ManualClock
    nursery: trio.Nursery
    extensions: Extensions = NO_EXTENSIONS
    stop: trio.Event = field(default_factory=trio.Event)
    stopped: trio.Event = field(default_factory=trio.Event)
    addresses: Addresses = field(default_factory=lambda: Addresses(None, None))
    _plain: PlainClient | None = None
    _httpx: httpx.AsyncClient | None = None
    has_client: bool = False  # that sends all requests
    store: Store | None = None  # of the running server

    # The server.

    async def start(self, *, prepared: bool = False) -> None:
        """With `prepared` data, controllers have nothing to write at the start."""
        self.stop, self.stopped = trio.Event(), trio.Event()
        await self.nursery.start(self._run)
        self._httpx = None
        if self.addresses.insecure is not None:
            self._plain = PlainClient(*self.addresses.insecure)
            if not prepared:
                # Controllers write their objects now, so that they change no versions during a test.
                await settled()

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        def announce(addresses: Addresses) -> None:
            self.addresses = addresses
            task_status.started()

        def opened(store: Store) -> None:
            self.store = store

        await run(self.settings, announce, self.stop, self.clock, self.extensions, opened)
        self.stopped.set()

    async def finish(self) -> None:
        await self.close_idle()
        self.stop.set()
        await self.stopped.wait()

    async def restart(self, **changed: Any) -> None:
        await self.finish()
        self.settings = replace(self.settings, **changed)
        await self.start()

    # HTTP.

    @property
    def client(self) -> httpx.AsyncClient:
        """An httpx client for requests that `ask` cannot send, such as streams."""
        if self._httpx is None:
            host, port = self.addresses.insecure or ("", 0)
            base = f"http://{host}:{port}" if host else ""
            self._httpx = httpx.AsyncClient(base_url=base, verify=_NO_TLS, timeout=30)
        return self._httpx

    def use_client(self, client: httpx.AsyncClient) -> None:
        """Send all requests with this client."""
        if self._plain is not None:
            self._plain.close()
        self._plain, self._httpx, self.has_client = None, client, True

    async def close_idle(self) -> None:
        """Close the connections on which no request runs."""
        if self._plain is not None:
            self._plain.close()
        if self._httpx is not None:
            await self._httpx.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        body: Document | bytes | None = None,
        *,
        token: str | None = ADMIN,
        headers: Mapping[str, str | bytes] | None = None,
        **query: Any,
    ) -> ApiResponse:
        """Send a request. `query` is percent-encoded; a query in the path is sent as it is."""
        if query:
            pairs = (f"{quote(name)}={quote(str(value), safe='')}" for name, value in query.items())
            path += "?" + "&".join(pairs)
        content = unescaped(body) if isinstance(body, dict) else body
        sent: dict[str, str | bytes] = {"user-agent": "test/1"}
        if token:
            sent["authorization"] = f"Bearer {token}"
        sent.update(headers or {})
        if self._plain is not None and is_plain(method, sent):
            status, received, data = await self._plain.request(method, path, content, sent)
            return ApiResponse(status, httpx.Headers(received), data)
        response = await self.client.request(method, path, content=content, headers=sent)
        return ApiResponse(response.status_code, response.headers, response.content)

    async def head(self) -> str:
        """The newest resourceVersion; if two calls return the same, nothing was written in between."""
        return str((await self.list("namespaces", None))["metadata"]["resourceVersion"])

    async def refuse(self, method: str, path: str, body: bytes, code: int, **more: Any) -> str:
        """Send a request that must be refused with a Status and write nothing; return the message."""
        head = await self.head()
        status = (await self.ask(method, path, body, **more)).expect(code)
        assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
        assert await self.head() == head
        assert (await self.ask("GET", "/livez")).text == "ok"
        return str(status["message"])

    # The methods of Verbs.

    def path(self, plural: str, namespace: str | None = "default", name: str = "") -> str:
        definition = next(one for one in _catalog(self.settings.dialect).definitions if one.plural == plural)
        root = f"/apis/{definition.api_version}" if definition.group else "/api/v1"
        where = f"/namespaces/{namespace}" if definition.namespaced and namespace is not None else ""
        return f"{root}{where}/{plural}" + (f"/{name}" if name else "")

    async def create(self, plural: str, body: Document, namespace: str = "default", **query: Any) -> Document:
        return _document_of(await self.ask("POST", self.path(plural, namespace), body, **query))

    async def replace(
        self, plural: str, body: Document, namespace: str = "default", **query: Any
    ) -> Document:
        path = self.path(plural, namespace, body["metadata"]["name"])
        return _document_of(await self.ask("PUT", path, body, **query))

    async def get(self, plural: str, name: str, namespace: str = "default", **query: Any) -> Document:
        return _document_of(await self.ask("GET", self.path(plural, namespace, name), **query))

    async def list(self, plural: str, namespace: str | None = "default", **query: Any) -> Document:
        return _document_of(await self.ask("GET", self.path(plural, namespace), **query))

    async def delete(
        self, plural: str, name: str, namespace: str = "default", body: Document | None = None, **query: Any
    ) -> Document:
        return _document_of(await self.ask("DELETE", self.path(plural, namespace, name), body, **query))

    async def delete_collection(self, plural: str, namespace: str = "default", **query: Any) -> None:
        _document_of(await self.ask("DELETE", self.path(plural, namespace), **query))


@cache
def _catalog(dialect: str) -> Catalog:
    return built_in(NAMES[dialect])


def _document_of(response: ApiResponse) -> Document:
    document = response.document
    if response.status >= 400:
        token = document["metadata"].get("continue", "")
        raise Refused(document["reason"], document["message"], token)
    return document


def prepare_initial_data() -> None:
    """Start a server of each dialect once and keep its data; see `initial_data`."""
    for dialect in NAMES:
        trio.run(_keep_data, dialect)


async def _keep_data(dialect: str, secure_port: int = 0) -> None:
    changed = {"dialect": dialect, "secure_port": secure_port}
    with memory_folder() as folder:
        if secure_port:
            shutil.copytree(own_certificates(dialect).folder, folder / "data" / "pki")
        async with served(folder, **changed) as api:
            await api.finish()
            keep_initial_data(initial_data_for(changed), api.settings.data_dir)


async def _begin_with(name: str, data: Path) -> bool:
    """Fill a data folder and return whether there is data for these settings. Certificates are created for the first
    test that needs them.
    """
    if name.endswith("with certificates") and not is_kept(name):
        dialect = name.partition(" ")[0]
        # In a thread, because the clock of the test may stand still.
        await trio.to_thread.run_sync(trio.run, _keep_data, dialect, SECURE_PORT)
    if not is_kept(name):
        return False
    copy_initial_data(name, data)
    return True


def version_after(api: object, version: int, writes: int) -> int:
    """The version of a server, or of a store without one, after so many writes, one after the other."""
    if not (ON_ETCD and isinstance(api, Api)):
        return version + writes
    keys = Keys("/test")
    return keys.version(keys.revision(version) + writes)


@asynccontextmanager
async def served(
    folder: Path | None = None,
    extensions: Extensions = NO_EXTENSIONS,
    *,
    initial: str = "",
    made_as: type[Api] = Api,
    **changed: Any,
) -> AsyncIterator[Api]:
    """Run a server with these settings. Without a folder its data is in memory; it may begin with `initial` data.

    With REWOUND_TESTS_ETCD=memory (`make test-etcd`) an etcd in memory orders its journal.
    """
    own = "cluster" in changed or initial or extensions.etcd is not None or "enable_test_controls" in changed
    written = folder is not None and folder not in _clusters and (folder / "data" / "journal").exists()
    if ON_ETCD and not own and not written:
        changed = {**changed, "cluster": ClusterSettings(journal="etcd://memory:2379/test")}
        cluster = FakeCluster() if folder is None else _clusters.setdefault(folder, FakeCluster())
        extensions = msgspec.structs.replace(extensions, etcd=SlowEtcd(cluster))
    with memory_folder() as scratch:
        prepared = folder is None and await _begin_with(
            initial or initial_data_for(changed), scratch / "data"
        )
        if "cluster" in changed:
            await _share_certificates((folder or scratch) / "data" / "pki", changed.get("dialect", "cluster"))
        async with trio.open_nursery() as nursery:
            extensions = msgspec.structs.replace(extensions, install_controls=install_controls)
            api = made_as(settings(folder or scratch, **changed), ManualClock(), nursery, extensions)
            await api.start(prepared=prepared)
            try:
                yield api
            finally:
                with trio.move_on_after(10, shield=True):
                    await api.finish()


async def _share_certificates(folder: Path, dialect: str) -> None:
    """Give all nodes of a cluster the same CA."""
    if not folder.exists():
        made = await trio.to_thread.run_sync(own_certificates, dialect)
        shutil.copytree(made.folder, folder)


# By data folder: a second server with the same folder belongs to the same cluster.
_clusters: dict[Path, FakeCluster] = {}


class SlowDisk(Committer):
    """A Committer that waits for `gate` before each write.

    Tests replace `server.open_store.Committer` and set `gate` on the class. On etcd, transactions wait.
    """

    gate: trio.Event | None = None

    async def _write_next(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await super()._write_next()


Opener = Callable[[], AbstractAsyncContextManager[Verbs]]
# Runs a test on the actors and over HTTP.
everywhere = pytest.mark.parametrize(
    "opened", [pytest.param(open_store, id="actors"), pytest.param(served, id="http")]
)


def config_map(name: str, **data: str) -> Document:
    return {"metadata": {"name": name}, "data": data} if data else {"metadata": {"name": name}}


def labelled(name: str, **labels: str) -> Document:
    return {"metadata": {"name": name, "labels": labels}}


def names(listed: Document) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


class SlowEtcd(FakeEtcd):
    """Waits like `SlowDisk` before each transaction that changes an object."""

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        if SlowDisk.gate is not None and any(
            isinstance(one, Put) and one.key.endswith(b"/head") for one in then
        ):
            await SlowDisk.gate.wait()
        return await super().txn(compares, then, otherwise)
