"""gzip for large responses, if the client accepts it."""

from __future__ import annotations

import gzip

import pytest

from tests.gateway.api import config_map, served

PATH = "/api/v1/namespaces/default/configmaps"
LARGE = 200_000


async def raw(api, path: str, **headers: str):
    """The response and its raw body, which httpx does not decompress."""
    request = api.client.build_request(
        "GET", path, headers={"authorization": "Bearer admin-token", **headers}
    )
    response = await api.client.send(request, stream=True)
    body = b"".join([part async for part in response.aiter_raw()])
    await response.aclose()
    return response, body


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("*", True),
        ("GZIP", True),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("br, deflate", False),
        ("", False),
        ("gzip;q=garbage", False),
    ],
)
async def test_large_responses_are_compressed(accepted: str, compressed: bool) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("large", text="x" * LARGE))
        for path in (PATH, f"{PATH}/large"):
            response, body = await raw(api, path, **{"accept-encoding": accepted})
            assert response.headers.get("content-encoding", "") == ("gzip" if compressed else "")
            assert len(body) == int(response.headers["content-length"])
            if compressed:
                assert len(body) < LARGE / 10
                assert "Accept-Encoding" in response.headers["vary"]
                body = gzip.decompress(body)
            assert b"x" * LARGE in body


async def test_small_responses_stay_plain() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("small", text="x" * 1000))
        for path in (PATH, f"{PATH}/small", "/apis", "/livez"):
            response, _ = await raw(api, path, **{"accept-encoding": "gzip"})
            assert "content-encoding" not in response.headers


async def test_yaml_and_indented_json_are_compressed() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("large", text="x" * LARGE))
        for path, accept in ((f"{PATH}?pretty=1", "application/json"), (PATH, "application/yaml")):
            response, body = await raw(api, path, **{"accept-encoding": "gzip", "accept": accept})
            assert response.headers["content-encoding"] == "gzip"
            assert response.headers["content-type"] == accept
            assert b"x" * LARGE in gzip.decompress(body)
