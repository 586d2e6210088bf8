"""A long list is sent in parts: the same bytes as in one body, from one version, and only a part of it is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import orjson
import pytest
import yaml

from rewound.actors.errors import Expired
from rewound.actors.store.reads import ListReader
from rewound.gateway.handlers import lists
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Request
from tests.gateway.api import ADMIN, Api, ApiResponse, served

META = "meta.cluster.io"
MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 25
FORMS = {
    "plain": "application/json",
    "pretty": "application/json;pretty=1",
    "table": f"application/json;as=Table;v=v1;g={META}",
    "metadata": f"application/json;as=PartialObjectMetadataList;v=v1;g={META}",
    "yaml": "application/yaml",
    "yaml table": f"application/yaml;as=Table;v=v1;g={META}",
    "protobuf": "application/vnd.cluster.protobuf",
}


def config_map(number: int) -> dict[str, Any]:
    odd = "a: b\n# c\n" * number
    return {"metadata": {"name": f"c{number:02d}", "labels": {"odd": str(number % 2)}}, "data": {"k": odd}}


async def fill(api: Api) -> None:
    for number in range(COUNT):
        (await api.ask("POST", MAPS, config_map(number))).expect(201)


@contextmanager
def parts(monkeypatch: pytest.MonkeyPatch, size: int = 600) -> Iterator[None]:
    """Inside this context, lists are sent in parts of about `size` bytes, never in a single body."""
    with monkeypatch.context() as changed:
        changed.setattr("rewound.actors.store.reads.BATCH_ROWS", 3)
        changed.setattr(lists, "WHOLE", 0)
        changed.setattr(lists, "PART", size)
        yield


async def get(api: Api, query: str = "", form: str = "plain", **headers: str) -> ApiResponse:
    return await api.ask("GET", MAPS + query, headers={"Accept": FORMS[form], **headers})


@pytest.mark.parametrize("form", FORMS)
async def test_parts_are_the_same_bytes_as_one_body(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    async with served() as api:
        await fill(api)
        for query in ("", "?labelSelector=odd%3D1", "?limit=20", "?limit=100"):
            whole = await get(api, query, form)
            with parts(monkeypatch):
                sliced = await get(api, query, form)
            assert ("content-length" in sliced.headers) == (form == "protobuf")
            assert (whole.status, whole.headers["content-type"]) == (200, sliced.headers["content-type"])
            if "limit" in query and form not in ("yaml", "protobuf"):  # the metadata follows the elements
                load = yaml.safe_load if form == "yaml table" else orjson.loads
                assert load(sliced.body) == load(whole.body)
            else:
                assert sliced.body == whole.body


async def test_objects_that_are_converted_have_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    async with served() as api:
        for number in range(5):
            scaler = {
                "metadata": {"name": f"h{number}"},
                "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
            }
            (await api.ask("POST", path, scaler)).expect(201)
        whole = await api.ask("GET", path)
        with parts(monkeypatch):
            sliced = await api.ask("GET", path)
        assert "content-length" not in sliced.headers
        assert sliced.body == whole.body


async def test_compressed_parts_are_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        await fill(api)
        whole = await get(api)
        with parts(monkeypatch):
            sliced = await get(api, **{"Accept-Encoding": "gzip"})
        assert (sliced.headers["content-encoding"], sliced.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert sliced.body == whole.body  # the client has decompressed it


async def test_head_of_a_list_in_parts_has_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        await fill(api)
        with parts(monkeypatch):
            assert (await api.ask("HEAD", MAPS)).body == b""
            assert len((await get(api)).document["items"]) == COUNT


async def test_all_parts_are_read_at_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        await fill(api)
        whole = await get(api)
        with parts(monkeypatch):
            headers = {"authorization": f"Bearer {ADMIN}", "accept-encoding": "identity"}
            async with api.client.stream("GET", MAPS, headers=headers) as response:
                received = response.aiter_raw()
                body = await anext(received)
                assert not body.endswith(b"]}\n")
                await api.delete("configmaps", "c24")
                await api.create("configmaps", {"metadata": {"name": "c10a"}})
                body += b"".join([part async for part in received])
        assert body == whole.body


@pytest.mark.parametrize("failure", [Expired("compacted"), RuntimeError("a bug")])
async def test_client_notices_a_list_that_was_cut_off(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    read = ListReader.step
    steps = 0

    def step(self: ListReader, size: int | None = None) -> list[bytes]:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise failure
        return read(self, size)

    async with served() as api:
        await fill(api)
        with parts(monkeypatch):
            monkeypatch.setattr(ListReader, "step", step)
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await get(api)


async def test_list_without_room_has_small_parts_and_none_in_protobuf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as api:
        large = {"k": "x" * 10_000}
        for number in range(20):
            await api.create("configmaps", {"metadata": {"name": f"c{number:02d}"}, "data": large})
        whole = await get(api)
        assert "content-length" in whole.headers
        monkeypatch.setattr(MemoryBudget, "try_take", lambda *_: False)
        for short in (True, False):
            if not short:
                monkeypatch.setattr(lists, "WHOLE", 0)
                monkeypatch.setattr("rewound.actors.store.reads.BATCH_ROWS", 3)
            sliced = await get(api, **{"Accept-Encoding": "identity"})
            assert "content-length" not in sliced.headers
            assert sliced.body == whole.body
            refused = await get(api, "", "protobuf", **{"Accept-Encoding": "identity"})
            assert (refused.status, "retry-after" in refused.headers) == (429, True)


async def test_body_is_counted_until_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    take, taken = MemoryBudget.try_take, []

    def try_take(self: MemoryBudget, request: Request, size: int) -> bool:
        taken.append(size)
        return take(self, request, size)

    monkeypatch.setattr(MemoryBudget, "try_take", try_take)
    async with served() as api:
        await api.create("configmaps", {"metadata": {"name": "c"}, "data": {"k": "x" * 100_000}})
        for path in (MAPS, f"{MAPS}/c", f"{MAPS}?fieldSelector=metadata.name%3Dc"):
            taken.clear()
            body = (await api.ask("GET", path)).body
            assert taken == [len(body)]
            assert "\nrewound_memory_held_bytes 0\n" in (await api.ask("GET", "/metrics")).text
