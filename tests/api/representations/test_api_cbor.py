"""Objects in CBOR, where the feature gate CBORServingAndStorage is on."""

from __future__ import annotations

from typing import Any

import trio
import trio_websocket

from rewound.gateway.wire.cbor.reader import read_values
from tests.gateway.api import ADMIN, ALICE, Api, ApiResponse, config_map, served
from tests.gateway.watch.watching import connect, with_query
from tests.gateway.wire.cbor.items import item, tagged

GATE = {
    "dialect": "kubernetes",
    "kubernetes_version": "1.36",
    "feature_gates": "CBORServingAndStorage=true",
}
PATH = "/api/v1/namespaces/default/configmaps"
CBOR, SEQUENCE, APPLY = "application/cbor", "application/cbor-seq", "application/apply-patch+cbor"
MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def sent(name: str, **fields: Any) -> bytes:
    return item({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields})


def read(response: ApiResponse, status: int = 200) -> Any:
    assert (response.status, response.headers["content-type"]) == (status, CBOR)
    assert response.body.startswith(b"\xd9\xd9\xf7")
    return read_values(response.body, 10_000)


async def ask(api: Api, method: str, path: str, body: bytes | None = None, **headers: str) -> ApiResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.ask(method, path, body, headers=named)


async def test_bodies_and_responses() -> None:
    async with served(**GATE) as api:
        body = sent("a", data={"k": b"v"}, binaryData={"b": tagged(22, b"\x00\xff")})
        response = await ask(api, "POST", PATH, body, content_type=CBOR, accept=CBOR)
        made = read(response, 201)
        assert (made["kind"], made["data"], made["binaryData"]) == ("ConfigMap", {"k": "v"}, {"b": "AP8="})
        assert b"\xd6\x42\x00\xff" in response.body
        assert (await ask(api, "GET", f"{PATH}/a")).expect(200) == made
        found = read(await ask(api, "GET", PATH, accept=CBOR))
        assert found["kind"] == "ConfigMapList"
        mine = next(one for one in found["items"] if one["metadata"]["name"] == "a")
        assert mine == {name: value for name, value in made.items() if name not in ("kind", "apiVersion")}
        metadata = f"{CBOR};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        assert read(await ask(api, "GET", f"{PATH}/a", accept=metadata))["kind"] == "PartialObjectMetadata"
        applied = sent("b", binaryData={"b": tagged(22, b"hi")})
        path = f"{PATH}/b?fieldManager=m"
        made = read(await ask(api, "PATCH", path, applied, content_type=APPLY, accept=CBOR), 201)
        assert made["binaryData"] == {"b": "aGk="}
        options = item({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
        assert (await ask(api, "DELETE", f"{PATH}/b", options, content_type=CBOR)).status == 200
        assert (await ask(api, "GET", f"{PATH}/b")).status == 200


async def test_unknown_fields_and_errors() -> None:
    async with served(**GATE) as api:
        body = sent("a", foo=1)
        response = await ask(api, "POST", PATH, body, content_type=CBOR)
        assert (response.status, response.headers["warning"]) == (
            201,
            '299 - "cbor: found unknown field at map element index 3"',
        )
        response = await ask(api, "POST", f"{PATH}?fieldValidation=Strict", body, content_type=CBOR)
        assert response.expect(400)["message"] == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
            "cbor: found unknown field at map element index 3"
        )
        response = await ask(api, "POST", PATH, b"\xa1", content_type=CBOR, accept=CBOR)
        assert read(response, 400)["message"] == (
            "the object provided is unrecognized (must be of type ConfigMap): "
            "unable to determine group/version/kind: unexpected EOF (a1)"
        )
        response = await ask(api, "PATCH", f"{PATH}/a?fieldManager=m", b"\xa1", content_type=APPLY)
        assert response.expect(400)["message"] == "error decoding YAML: unexpected EOF"


async def test_negotiation() -> None:
    """Errors before a handler takes the request, Tables and groups are not served in CBOR."""
    async with served(**GATE) as api:
        assert read(await ask(api, "GET", f"{PATH}/x", accept=CBOR), 404)["reason"] == "NotFound"
        assert read(await ask(api, "GET", "/apis/apps/v1", accept=CBOR))["kind"] == "APIResourceList"
        refused = await api.ask("GET", PATH, token=ALICE, headers={"accept": CBOR})
        assert refused.expect(403)["reason"] == "Forbidden"
        assert (await ask(api, "GET", "/api/v1/nosuch", accept=CBOR)).expect(404)["reason"] == "NotFound"
        assert (await ask(api, "GET", "/apis", accept=CBOR)).status == 406
        table = await ask(api, "GET", PATH, accept=f"{CBOR};as=Table;g=meta.k8s.io;v=v1")
        accepted = f"only the following media types are accepted: {MEDIA}, {CBOR}"
        assert table.expect(406)["message"] == accepted
        assert (await ask(api, "GET", f"{PATH}?watch=1", accept=SEQUENCE)).expect(406)["message"] == accepted
        body = await ask(api, "POST", PATH, b"x", content_type=SEQUENCE)
        assert body.expect(415)["message"].endswith(f"{MEDIA}, {CBOR}")
        patch = await ask(api, "PATCH", f"{PATH}/x", b"x", content_type="text/plain")
        assert patch.headers["accept-patch"].endswith(APPLY)


async def test_media_types_without_the_gate() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        assert (await ask(api, "GET", PATH, accept=CBOR)).status == 406
        assert (await ask(api, "POST", PATH, sent("a"), content_type=CBOR)).status == 415
        assert (await ask(api, "PATCH", f"{PATH}/a", sent("a"), content_type=APPLY)).status == 415


async def test_watch_is_a_sequence() -> None:
    async with served(**GATE) as api:
        at = await api.head()
        await api.create("configmaps", config_map("a", k="v"))
        path = with_query(PATH, watch=1, resourceVersion=at, timeoutSeconds=1)
        response = await ask(api, "GET", path, accept=CBOR)
        assert (response.status, response.headers["content-type"]) == (200, SEQUENCE)
        event = read_values(response.body, 1000)
        assert (event["type"], event["object"]["data"]) == ("ADDED", {"k": "v"})


async def test_watch_over_a_websocket() -> None:
    async with served(**GATE) as api, await connect(api) as stream, trio.open_nursery() as nursery:
        connection = await trio_websocket.wrap_client_stream(
            nursery,
            stream,
            "localhost",
            with_query(PATH, watch=1, resourceVersion=await api.head()),
            extra_headers=[(b"authorization", f"Bearer {ADMIN}".encode()), (b"accept", CBOR.encode())],
        )
        await api.create("configmaps", config_map("a", k="v"))
        frame = await connection.get_message()
        assert isinstance(frame, bytes)
        assert read_values(frame, 1000)["object"]["data"] == {"k": "v"}
        nursery.cancel_scope.cancel()


async def test_long_list_is_sent_in_parts() -> None:
    """Its array has no length before it: the server has not read the end when it sends the beginning."""
    async with served(**GATE) as api:
        for number in range(10):
            await api.create("configmaps", config_map(f"m-{number}", big="x" * 600_000))
        response = await ask(api, "GET", f"{PATH}?limit=9", accept=CBOR)
        assert b"Eitems\x9f" in response.body
        found = read(response)
        assert (len(found["items"]), found["metadata"]["remainingItemCount"]) == (9, 1)
