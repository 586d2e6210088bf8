"""Bodies of 3 MiB are accepted, one byte more is a 413; large values get a Status like small ones."""

from __future__ import annotations

import orjson
import pytest

from tests.cases import cases
from tests.gateway.api import names, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
MIB = 1024 * 1024
LIMIT = 3 * MIB


def sized(size: int) -> bytes:
    """A valid ConfigMap of this size, padded with spaces."""
    body = b'{"metadata":{"name":"a"}'
    return body + b" " * (size - len(body) - 1) + b"}"


async def test_body_of_three_mebibytes_is_accepted() -> None:
    async with served() as api:
        assert (await api.ask("POST", PATH, sized(LIMIT))).status == 201


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
async def test_body_of_one_byte_more_is_refused(method: str) -> None:
    async with shared() as api:
        path = PATH if method == "POST" else f"{PATH}/a"
        message = await api.refuse(method, path, sized(LIMIT + 1), 413)
        assert message == "Request entity too large: limit is 3145728"


async def test_chunked_body_over_the_limit_is_refused() -> None:
    async def chunks():
        for _ in range(8):
            yield b" " * (MIB // 2)

    async with shared() as api:
        head = await api.head()
        response = await api.client.post(
            PATH, content=chunks(), headers={"authorization": "Bearer admin-token"}
        )
        assert response.status_code == 413
        assert response.json()["reason"] == "RequestEntityTooLarge"
        assert await api.head() == head


async def test_value_over_one_mebibyte_is_refused() -> None:
    async with served() as api:
        fits = {"metadata": {"name": "a"}, "data": {"k": "x" * MIB}}
        assert (await api.ask("POST", PATH, fits)).status == 201
        body = orjson.dumps({"metadata": {"name": "b"}, "data": {"k": "x" * MIB + "x"}})
        assert "Too long: must have at most 1048576 bytes" in await api.refuse("POST", PATH, body, 422)
        assert names(await api.list("configmaps")) == ["a"]


@cases(
    ("metadata", "expected"),
    [
        ({"name": "x" * 300_000}, "must be no more than 253 characters"),
        ({"name": "a", "labels": {"k": "y" * 300_000}}, "must be no more than 63 characters"),
        ({"name": "a", "labels": {"k" * 300_000: "v"}}, "must be no more than 63 characters"),
        ({"name": "a", "annotations": {"k": "y" * 300_000}}, "Too long: must have at most 262144 bytes"),
        ({"name": "a", "generateName": "z" * 300_000}, "must be no more than 253 characters"),
    ],
)
async def test_too_long_names_and_labels_are_refused(metadata: dict, expected: str) -> None:
    async with shared() as api:
        assert expected in await api.refuse("POST", PATH, orjson.dumps({"metadata": metadata}), 422)


async def test_longest_name_is_accepted() -> None:
    async with served() as api:
        name = ".".join(["x" * 63] * 3) + "." + "y" * 61
        assert (await api.ask("POST", PATH, {"metadata": {"name": name}})).status == 201
        assert (await api.get("configmaps", name))["metadata"]["name"] == name


@pytest.mark.parametrize("parameter", ["labelSelector", "fieldSelector"])
async def test_selector_of_sixty_kilobytes_is_accepted(parameter: str) -> None:
    async with served() as api:
        await api.create("configmaps", {"metadata": {"name": "a", "labels": {"x": f"v{1:054}"}}})
        if parameter == "labelSelector":
            selector = "x%20in%20(" + ",".join(f"v{number:054}" for number in range(1050)) + ")"
        else:
            selector = ",".join(f"metadata.name!=n{number:040}" for number in range(1050))
        assert 58_000 < len(selector) < 64_000
        listed = (await api.ask("GET", f"{PATH}?{parameter}={selector}")).expect(200)
        assert names(listed) == ["a"]
