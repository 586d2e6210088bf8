"""/openapi/v2 and /openapi/v3: which document is meant, in which form, and whether the client has it already.

A document is made when it is first asked for, and kept; those who ask meanwhile wait for the one who makes it.
Who gives up while making it leaves the work to the next. Nothing that makes documents is imported before.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

import orjson
import trio

from actors.kinds.registry import Registry
from actors.names import Names
from gateway.describe.openapi.printed import Printed, printed
from gateway.requests.call import Call
from gateway.requests.errors import NoSuchPath
from gateway.requests.request import Response
from gateway.wire import compression, marks
from gateway.wire.negotiate import NotAcceptable, parse_accept

if TYPE_CHECKING:
    from gateway.describe.openapi.press import Press

JSON: Final = "application/json"
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for. An answer must not be called so: no media type has an @, and Go's clients refuse to read one.
OLD_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
YEAR: Final = 365 * 24 * 3600


class OpenApi:
    def __init__(self, registry: Registry, names: Names, verbs: frozenset[str], version: str) -> None:
        self._made_of = registry.current, names, verbs, version
        self._making = trio.Lock()
        self._two: dict[str, Printed] = {}  # by media type
        self._three: dict[str, Printed] = {}  # by name; the index has none

    async def __call__(self, call: Call) -> Response:
        accept = call.request.headers.get(b"accept")
        match call.route.path.strip("/").split("/"):
            case ["openapi", "v2"]:
                media = _chosen(accept, JSON, PROTOBUF, OLD_PROTOBUF)
                return await _answer(call, await self._version_2(JSON if media == JSON else PROTOBUF))
            case ["openapi", "v3", *part]:
                _chosen(accept, JSON)
                return await self._version_3(call, "/".join(part))
        raise NoSuchPath

    async def _version_2(self, media: str) -> Printed:
        async with self._making:
            if media not in self._two:
                press = self._press()
                pieces = press.version_2() if media == JSON else press.version_2_protobuf()
                self._two[media] = await printed(pieces, media.encode())
        return self._two[media]

    async def _version_3(self, call: Call, part: str) -> Response:
        async with self._making:
            if not self._three:
                self._three = await self._print_3()
        found = self._three.get(part)
        if found is None:
            raise NoSuchPath
        wanted = call.parameters.first("hash") if part else None
        if wanted and wanted != found.mark:
            return Response(301, b"", b"", [(b"location", _address(part, found).encode())])
        response = await _answer(call, found)
        if wanted:
            expires = formatdate(time.time() + YEAR, usegmt=True).encode()
            response.headers += [(b"cache-control", b"public, immutable"), (b"expires", expires)]
        return response

    async def _print_3(self) -> dict[str, Printed]:
        made = {name: await printed(one, JSON.encode()) for name, one in self._press().version_3()}
        paths = {name: {"serverRelativeURL": _address(name, one)} for name, one in sorted(made.items())}
        made[""] = await printed(iter([orjson.dumps({"paths": paths})]), JSON.encode())
        return made

    def _press(self) -> Press:
        from gateway.describe.openapi.press import Press

        return Press(*self._made_of)


def _address(name: str, one: Printed) -> str:
    return f"/openapi/v3/{name}?hash={one.mark}"


def _chosen(accept: bytes | None, *served: str) -> str:
    """The first of the media types where nothing else is said."""
    for clause in sorted(parse_accept(accept or b"*/*"), key=lambda clause: clause.rank):
        for media in served:
            if clause.covers(*media.split("/")):
                return media
    raise NotAcceptable(served)


async def _answer(call: Call, one: Printed) -> Response:
    headers = [(b"etag", marks.quoted(one.mark)), (b"vary", b"Accept, Accept-Encoding")]
    if marks.is_known(call.request.headers.get(b"if-none-match"), one.mark):
        return Response(304, b"", b"", headers)
    if one.size > compression.THRESHOLD and compression.acceptable(
        call.request.headers.get(b"accept-encoding")
    ):
        return Response(200, one.packed, one.content_type, [*headers, (b"content-encoding", b"gzip")])
    return Response(200, await one.plain(), one.content_type, headers)
