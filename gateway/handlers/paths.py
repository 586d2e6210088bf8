"""Paths that are not resources: health, version, metrics, descriptions of the API, and the index of them all."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from actors.errors import NoSuchResource
from gateway.describe.aggregated import aggregated
from gateway.describe.discovery import Discovery
from gateway.describe.openapi.handler import OpenApi
from gateway.ops.health import Health
from gateway.release import SERVED_VERSION
from gateway.requests import render
from gateway.requests.call import Call
from gateway.requests.errors import MethodNotAllowed, NoSuchPath
from gateway.requests.request import Response
from gateway.wire.negotiate import DISCOVERY_LIST, Shape

HEALTH = ("livez", "readyz", "healthz")

# What Go, and every client that reads it, calls the machines that Python names otherwise.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINE = platform.machine().lower()
PLATFORM = f"{platform.system().lower()}/{_MACHINES.get(_MACHINE, _MACHINE)}"

Scrape = Callable[[], bytes]


class Paths:
    def __init__(
        self,
        health: Health,
        discovery: Discovery,
        openapi: OpenApi,
        scrape: Scrape,
        address: Callable[[], str],
    ) -> None:
        self._health = health
        self._discovery = discovery
        self._openapi = openapi
        self._scrape = scrape
        self._address = address

    @staticmethod
    def negotiates(path: str) -> bool:
        """Whether a path answers with a document; the others speak plain text to everyone."""
        first = path.strip("/").partition("/")[0]
        return first in ("", "api", "apis", "version")

    @staticmethod
    def shape(path: str) -> Shape:
        return "groups" if path.strip("/") in ("api", "apis") else "document"

    async def __call__(self, call: Call) -> Response:
        path = call.route.path
        first, _, rest = path.strip("/").partition("/")
        if first in HEALTH:
            return self._healthy(call, first, rest)
        if first in ("api", "apis"):
            return await self._described(call, path)
        if first == "openapi":
            _only(call, "GET", "HEAD")
            return await self._openapi(call)
        if first == "version" and not rest:
            _only(call, "GET")
            return await render.document(call, self._version())
        if first == "metrics" and not rest:
            _only(call, "GET", "HEAD")
            return Response(200, self._scrape(), b"text/plain; version=0.0.4; charset=utf-8")
        if not first:
            _only(call, "GET", "HEAD")
            return await render.document(call, {"paths": self._index()})
        raise NoSuchPath

    def _healthy(self, call: Call, kind: str, single: str) -> Response:
        verbose = call.parameters.first("verbose") is not None
        report = self._health.report(kind, single, verbose=verbose, exclude=call.parameters.all("exclude"))
        if report is None:
            raise NoSuchPath
        _only(call, "GET", "HEAD")
        status, body = report
        return render.text(body, status)

    async def _described(self, call: Call, path: str) -> Response:
        found = self._discovery.find(path, self._address())
        if found is None:
            if self._discovery.knows_group(path):
                raise NoSuchResource
            raise NoSuchPath
        _only(call, "GET")
        if call.representation.form == DISCOVERY_LIST:
            return await aggregated(call, self._discovery, path)
        return await render.document(call, found)

    def _version(self) -> dict[str, Any]:
        major, minor = "1", "25"
        return {
            "major": major,
            "minor": minor,
            "gitVersion": SERVED_VERSION,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": platform.python_implementation().lower(),
            "platform": PLATFORM,
        }

    def _index(self) -> list[str]:
        health = [f"/{kind}" for kind in HEALTH]
        single = [f"/{kind}/{name}" for kind in HEALTH for name in self._health.names(kind)]
        described = [*self._discovery.paths(), "/openapi/v2", "/openapi/v3"]
        return sorted([*described, *health, *single, "/metrics", "/version"])


def _only(call: Call, *methods: str) -> None:
    if call.request.method not in methods:
        raise MethodNotAllowed(methods)
