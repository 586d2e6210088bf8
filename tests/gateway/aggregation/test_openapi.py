"""OpenAPI documents include what aggregated servers describe; invalid or missing responses change nothing."""

from __future__ import annotations

from typing import Any

import orjson

from tests.gateway.account_tokens import eventually
from tests.gateway.aggregation.aggregated import (
    API_SERVICES,
    GROUP_VERSION,
    NAME,
    RESOURCES,
    aggregating,
    register,
)
from tests.gateway.api import ApiResponse
from tests.gateway.proxy.backends import Call, Respond, serving

SECTION = GROUP_VERSION.strip("/")
STATUS = "io.cluster.apimachinery.pkg.apis.meta.v1.Status"
PROTOBUF = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}


def operation(definition: str) -> dict[str, Any]:
    schema = {"$ref": f"#/definitions/{definition}"}
    return {
        "get": {"operationId": "readThing", "responses": {"200": {"description": "OK", "schema": schema}}}
    }


SPEC: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "things", "version": "1"},
    "paths": {
        f"{GROUP_VERSION}/things": operation("com.example.Thing"),
        "/api/v1/pods": operation("com.example.Other"),
        "/apis/things.example.com/v10/x": operation("com.example.Other"),
    },
    "definitions": {
        "com.example.Thing": {
            "type": "object",
            "properties": {"status": {"$ref": f"#/definitions/{STATUS}"}},
        },
        "com.example.Other": {"type": "object"},
        STATUS: {"type": "object", "description": "another one"},
    },
}
DOCUMENT = {"openapi": "3.0.0", "info": {"title": "things", "version": "1"}, "paths": {}}


def describing(version_2: bytes, url: str = f"/openapi/v3/{SECTION}?hash=1") -> Respond:
    async def respond(call: Call) -> None:
        path = call.line.split()[1]
        bodies = {
            GROUP_VERSION: orjson.dumps(RESOURCES),
            "/openapi/v2": version_2,
            "/openapi/v3": orjson.dumps({"paths": {SECTION: {"serverRelativeURL": url}}}),
            f"/openapi/v3/{SECTION}?hash=1": orjson.dumps(DOCUMENT),
        }
        if path not in bodies:
            await call.reply(status="404 Not Found")
        elif call.header("if-none-match") == '"1"':
            await call.reply(status="304 Not Modified")
        else:
            await call.reply(bodies[path], 'ETag: "1"')

    return respond


def has_group(response: ApiResponse) -> bool:
    return f"{GROUP_VERSION}/things" in response.document["paths"]


async def test_both_documents_have_the_group_version_and_nothing_else_of_the_server() -> None:
    respond = describing(orjson.dumps(SPEC))
    async with serving(respond, certificate="service") as backend, aggregating() as api:
        own = (await api.ask("GET", "/openapi/v2")).expect(200)
        await register(api, backend.port)
        merged = (await eventually(api, "/openapi/v2", has_group)).document
        assert merged["paths"].keys() - own["paths"].keys() == {f"{GROUP_VERSION}/things"}
        assert (
            merged["paths"]["/api/v1/namespaces/{namespace}/pods"]
            == own["paths"]["/api/v1/namespaces/{namespace}/pods"]
        )
        assert merged["definitions"][STATUS] == own["definitions"][STATUS]
        reference = merged["definitions"]["com.example.Thing"]["properties"]["status"]["$ref"]
        assert reference == f"#/definitions/{STATUS}_v2"
        assert merged["definitions"][f"{STATUS}_v2"] == {"type": "object", "description": "another one"}
        assert "com.example.Other" not in merged["definitions"]
        encoded = await api.ask("GET", "/openapi/v2", headers=PROTOBUF)
        assert encoded.status == 200 and b"com.example.Thing" in encoded.body

        index = await eventually(api, "/openapi/v3", lambda one: SECTION in one.document["paths"])
        url = index.document["paths"][SECTION]["serverRelativeURL"]
        assert (await api.ask("GET", url)).expect(200) == DOCUMENT

        (await api.ask("DELETE", f"{API_SERVICES}/{NAME}")).expect(200)
        await eventually(api, "/openapi/v2", lambda one: not has_group(one))
        assert SECTION not in (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]


async def test_a_server_that_lies_changes_nothing() -> None:
    """An endless document, and one at a path where no OpenAPI document belongs."""

    async def lie(call: Call) -> None:
        if call.line.startswith("GET /openapi/v2 "):
            await call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                await call.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        else:
            await describing(b"", "https://elsewhere.example/openapi/v3/x")(call)

    async with serving(lie, certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        endless = "GET /openapi/v2 HTTP/1.1"
        await eventually(api, "/version", lambda _: any(one.line == endless for one in backend.calls))
        [call] = [one for one in backend.calls if one.line == endless]
        await call.ended.wait()  # we closed the connection
        own = (await api.ask("GET", "/openapi/v2")).expect(200)
        assert "/api/v1/nodes" in own["paths"] and not any("things" in path for path in own["paths"])
        assert SECTION not in (await api.ask("GET", "/openapi/v3")).expect(200)["paths"]
        assert {one.line.split()[1] for one in backend.calls} == {GROUP_VERSION, "/openapi/v2", "/openapi/v3"}
