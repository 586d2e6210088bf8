"""The server accepts heads as large as kube-apiserver does: long selectors, many fields, long fields."""

from __future__ import annotations

import orjson

from tests.api.requests.header_fields import AUTHORIZED, Fields, both_protocols, send
from tests.gateway.api import labelled
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
VALUES = ",".join(f"v{number:05}" for number in range(20_000))


@both_protocols
async def test_selector_of_20000_values(protocol: str) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", labelled("a", x="v19999"))
        await api.create("configmaps", labelled("b", x="v20000"))
        for selector in (f"x+in+({VALUES})", f"x%20in%20%28{VALUES.replace(',', '%2C')}%29"):
            status, body = await send(api, protocol, "GET", f"{PATH}?labelSelector={selector}", AUTHORIZED)
            assert status == 200, body
            assert [item["metadata"]["name"] for item in orjson.loads(body)["items"]] == ["a"]


@both_protocols
async def test_many_and_long_fields(protocol: str) -> None:
    many: Fields = [(f"x-{number}", "1") for number in range(250)]
    async with shared() as api:
        for fields in (many, [("x-long", "a" * 200_000)]):
            status, body = await send(api, protocol, "GET", PATH, [*AUTHORIZED, *fields])
            assert status == 200, body


async def test_head_of_nearly_a_mebibyte() -> None:
    async with shared() as api:
        for query, fields in (("", [("x-long", "a" * 1_000_000)]), ("?x=" + "a" * 1_000_000, [])):
            status, body = await send(api, "HTTP/1.1", "GET", PATH + query, [*AUTHORIZED, *fields])
            assert status == 200, body


async def test_larger_heads_are_refused() -> None:
    many: Fields = [(f"x-{number}", "1") for number in range(1001)]
    long: Fields = [(f"x-{number}", "a" * 100_000) for number in range(11)]
    async with shared() as api:
        for fields in (many, long):
            assert (await send(api, "HTTP/1.1", "GET", PATH, [*AUTHORIZED, *fields]))[0] == 431
        assert (await send(api, "HTTP/2", "GET", PATH, [*AUTHORIZED, *many]))[0] == 431
        assert (await api.ask("GET", "/livez")).text == "ok"
