"""A built-in and a custom kind in a namespace of each test, on a server that all tests of this folder share.

    @both
    async def test_name_is_generated(opened: Opened) -> None:
        async with opened() as kind:
            made = await kind.create("", metadata={"generateName": "a-"})

The built-in kind is ConfigMap; the custom kind, Widget, has a structural schema with the same fields. The server
knows both in every test, so that objects of one kind can own objects of the other. Tests of ConfigMap also run on
servers with other transports, over each of their protocols.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.actors.object_store import Document
from tests.api.custom.kinds import GROUP, define, definition, until
from tests.gateway.api import Api, ApiResponse
from tests.gateway.custom_api import VERSION
from tests.gateway.shared_server import ServerThread
from tests.gateway.transports import TRANSPORTS, over

META = "meta.cluster.io"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
_numbers = count()


@dataclass(frozen=True)
class Kind:
    """One kind, in one namespace."""

    api: Api
    namespace: str
    group: str
    name: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def resource(self) -> str:
        """The name of the resource in messages, quotas and rights."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str = "", *, everywhere: bool = False) -> str:
        root = f"/apis/{self.api_version}" if self.group else "/api/v1"
        where = "" if everywhere else f"/namespaces/{self.namespace}"
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")

    def body(self, name: str, *, metadata: Document | None = None, **data: str) -> Document:
        named = {"name": name} if name else {}
        return {
            "apiVersion": self.api_version,
            "kind": self.name,
            "metadata": {**named, **(metadata or {})},
            "data": data,
        }

    async def ask(self, method: str, name: str = "", body: Any = None, **more: Any) -> ApiResponse:
        return await self.api.ask(method, self.path(name), body, **more)

    async def create(self, name: str, *, metadata: Document | None = None, **data: str) -> Document:
        return (await self.ask("POST", body=self.body(name, metadata=metadata, **data))).expect(201)

    async def get(self, name: str, **more: Any) -> Document:
        return (await self.ask("GET", name, **more)).expect(200)

    async def list(self, **query: Any) -> Document:
        return (await self.ask("GET", **query)).expect(200)

    async def names(self, **query: Any) -> list[str]:
        return [one["metadata"]["name"] for one in (await self.list(**query))["items"]]

    async def apply(self, name: str, manager: str, *, force: bool = False, **data: str) -> ApiResponse:
        query = {"fieldManager": manager, **({"force": "true"} if force else {})}
        return await self.ask("PATCH", name, self.body(name, **data), headers=APPLY, **query)

    async def gone(self, name: str) -> None:
        async def is_gone() -> bool:
            return (await self.ask("GET", name)).status == 404

        await until(self.api, is_gone)

    def other(self) -> Kind:
        """The other kind, in the same namespace."""
        return Kind(self.api, self.namespace, *(CUSTOM if self.group == "" else BUILT_IN))


BUILT_IN = ("", "ConfigMap", "configmaps")
CUSTOM = (GROUP, "Widget", "widgets")

_servers: dict[str, ServerThread] = {}  # by transport


async def _define_widgets(api: Api) -> None:
    await define(api, definition(VERSION))


@asynccontextmanager
async def _opened(group: str, name: str, plural: str, transport: str = "http1") -> AsyncIterator[Kind]:
    served_as = "http1" if transport == "http2" else transport.replace("asgi-http2", "asgi-http1")
    if served_as not in _servers:
        _servers[served_as] = ServerThread(_define_widgets, **TRANSPORTS[served_as].settings)
    async with _servers[served_as].connected() as connected, over(transport, connected) as api:
        namespace = f"generic-{next(_numbers)}"
        await api.create("namespaces", {"metadata": {"name": namespace}})
        yield Kind(api, namespace, group, name, plural)


Opened = Callable[[], AbstractAsyncContextManager[Kind]]
both = pytest.mark.parametrize(
    "opened",
    [
        pytest.param(partial(_opened, *BUILT_IN), id="configmaps"),
        pytest.param(partial(_opened, *CUSTOM), id="widgets.example.com"),
        *(
            pytest.param(partial(_opened, *BUILT_IN, transport=one), id=f"configmaps over {one}")
            for one in TRANSPORTS
            if one != "http1"
        ),
    ],
)
