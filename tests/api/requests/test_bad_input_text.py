"""Invalid text is stored if Go programs would store it, and otherwise refused."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.gateway.api import served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"


@cases(
    ("raw", "stored"),
    [
        (b"a\xff\xfeb", "a\ufffd\ufffdb"),
        (b"a\xc0\x80b", "a\ufffd\ufffdb"),
        (b"a\xed\xa0\x80b", "a\ufffd\ufffd\ufffdb"),
        (b"a\\ud800b", "a\ufffdb"),
        (b"a\\udc00\\ud800b", "a\ufffd\ufffdb"),
        (b"\\ud83d\\ude00", "\U0001f600"),
        (b"a\\u0000b", "a\0b"),
        (b"a\\u2028\\u007f", "a\u2028\x7f"),
    ],
)
async def test_invalid_text_in_values(raw: bytes, stored: str) -> None:
    async with shared("configmaps") as api:
        body = b'{"metadata":{"name":"a"},"data":{"k":"' + raw + b'"}}'
        made = (await api.ask("POST", PATH, body)).expect(201)
        assert made["data"]["k"] == stored
        assert (await api.get("configmaps", "a"))["data"]["k"] == stored
        again = await api.ask("PUT", f"{PATH}/a", body)
        assert again.document["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        yaml = await api.ask("GET", f"{PATH}/a", headers={"accept": "application/yaml"})
        assert yaml.status == 200


@cases("raw", [b"a\xff", b"a\\ud800", b"a\\u0000", b"\xed\xa0\x80"])
async def test_invalid_text_in_names_and_keys_is_refused(raw: bytes) -> None:
    async with shared() as api:
        await api.refuse("POST", PATH, b'{"metadata":{"name":"' + raw + b'"}}', 422)
        await api.refuse("POST", PATH, b'{"metadata":{"name":"a","labels":{"' + raw + b'":""}}}', 422)
        await api.refuse("POST", PATH, b'{"metadata":{"name":"a"},"data":{"' + raw + b'":""}}', 422)


@pytest.mark.parametrize(
    "raw", [b"\\u0000\\r\\nX: y", b"\xff\xfe", b"\\ud800", "ü\u2028".encode(), b'\\"\\\\']
)
async def test_unknown_field_names_are_escaped_in_warnings(raw: bytes) -> None:
    async with served() as api:
        response = await api.ask("POST", PATH, b'{"metadata":{"name":"a"},"' + raw + b'":1}')
        assert response.status == 201
        assert len(response.warnings) == 1
        assert "x" not in response.headers


async def test_long_unknown_field_makes_no_long_head() -> None:
    async with served() as api:
        body = b'{"metadata":{"name":"a"},"' + b"k" * 2_000_000 + b'":1}'
        response = await api.ask("POST", PATH, body)
        assert response.status == 201
        assert len(response.warnings[0]) < 1100


async def test_many_unknown_fields_make_no_long_head() -> None:
    async with served() as api:
        fields = b",".join(b'"%b%d":1' % (b"k" * 200, number) for number in range(1000))
        response = await api.ask("POST", PATH, b'{"metadata":{"name":"a"},' + fields + b"}")
        assert response.status == 201
        assert 5 < len(response.warnings) < 100
        assert sum(map(len, response.warnings)) < 5000


async def test_user_agent_of_any_bytes_is_a_field_manager() -> None:
    async with served() as api:
        headers = {"user-agent": b"\xff\xfe/1"}
        assert (await api.ask("POST", PATH, {"metadata": {"name": "a"}}, headers=headers)).status == 201
