"""The number of values in a body is limited, and bodies with many are handled in the thread for large work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from rewound.actors.runtime.large_work import COUNTED_BYTES, MANY_VALUES, MAX_VALUES, check_values, is_large
from tests.gateway.api import ALICE, Api, config_map, served
from tests.gateway.protobuf_client import MEDIA, message, wrapped
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews"
TOO_MANY = MAX_VALUES + 1
LARGE = 65_536


def pieces(metrics: str) -> int:
    """The number of jobs that the thread for large work got."""
    line = next(one for one in metrics.splitlines() if one.startswith("rewound_large_work_started_total "))
    return int(float(line.split()[-1]))


@asynccontextmanager
async def in_thread(api: Api, expected: int) -> AsyncIterator[None]:
    before = pieces((await api.ask("GET", "/metrics")).text)
    yield
    assert pieces((await api.ask("GET", "/metrics")).text) - before == expected


def with_keys(count: int) -> bytes:
    return orjson.dumps({**config_map("a"), "data": {f"k{number}": "" for number in range(count)}})


def in_yaml(count: int) -> bytes:
    return b"metadata: {name: a}\ndata:\n" + b"".join(b"  k%d: ''\n" % number for number in range(count))


def in_protobuf(count: int) -> bytes:
    sent = message("ConfigMap")
    sent.metadata.name = "a"
    for number in range(count):
        sent.data[f"k{number}"] = ""
    return wrapped("v1", "ConfigMap", sent)


FORMATS = [
    pytest.param(with_keys, "application/json", id="json"),
    pytest.param(in_yaml, "application/yaml", id="yaml"),
    pytest.param(in_protobuf, MEDIA, id="protobuf"),
]


@pytest.mark.parametrize(("body", "media"), FORMATS)
async def test_body_with_too_many_values_is_refused(body, media: str) -> None:
    async with shared() as api:
        refused = await api.refuse("POST", PATH, body(TOO_MANY), 413, headers={"content-type": media})
        assert f"at most {MAX_VALUES} are allowed" in refused


@pytest.mark.parametrize(("body", "media"), FORMATS)
async def test_body_with_many_values_is_decoded_and_decided_in_the_thread(body, media: str) -> None:
    async with served() as api:
        async with in_thread(api, 2):
            made = await api.ask("POST", PATH, body(MANY_VALUES * 2), headers={"content-type": media})
        assert len(made.expect(201)["data"]) == MANY_VALUES * 2


@pytest.mark.parametrize(
    ("media", "value"),
    [
        ("application/merge-patch+json", {"data": {"x": "y" * LARGE}}),
        ("application/strategic-merge-patch+json", {"data": {"x": "y" * LARGE}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data", "value": {"x": "y" * LARGE}}]),
    ],
)
async def test_large_patch_is_applied_in_the_thread(media: str, value: object) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        async with in_thread(api, 2):
            made = await api.ask("PATCH", f"{PATH}/a", orjson.dumps(value), headers={"content-type": media})
        assert made.expect(200)["data"] == {"x": "y" * LARGE}


async def test_large_apply_is_decided_in_the_thread() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a"), "data": {"x": "y" * LARGE}}
    async with served() as api:
        async with in_thread(api, 2):
            made = await api.ask(
                "PATCH",
                f"{PATH}/a",
                config,
                headers={"content-type": "application/apply-patch+yaml"},
                fieldManager="m",
            )
        assert made.expect(201)["data"] == {"x": "y" * LARGE}


async def test_patch_with_many_operations_is_applied_in_the_thread() -> None:
    operations = [{"op": "test", "path": "/data"}] * 300
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        async with in_thread(api, 2):
            made = await api.ask(
                "PATCH",
                f"{PATH}/a",
                orjson.dumps([*operations, {"op": "add", "path": "/data", "value": {"x": "y"}}]),
                headers={"content-type": "application/json-patch+json"},
            )
        assert made.expect(200)["data"] == {"x": "y"}


async def test_values_in_strings_do_not_count() -> None:
    text = '1,{"a":[' * 60_000
    async with served() as api:
        made = await api.create("configmaps", {**config_map("a"), "data": {"x": text}})
        assert made["data"] == {"x": text}


async def test_small_bodies_do_not_use_the_thread() -> None:
    async with served() as api, in_thread(api, 0):
        await api.create("configmaps", {**config_map("a"), "data": {"x": "y" * (LARGE - 1000)}})
        await api.delete("configmaps", "a", body={"gracePeriodSeconds": 0})


@pytest.mark.parametrize("token", ["admin-token", ALICE])
async def test_large_review_is_refused(token: str) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "x" * LARGE}}}
    async with shared() as api:
        refused = await api.refuse("POST", REVIEWS, orjson.dumps(review), 413, token=token)
        assert "a SelfSubjectAccessReview may have 65536 bytes at most" in refused


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (orjson.dumps({"dryRun": ["All"] * LARGE}), "application/json"),
        (wrapped("v1", "DeleteOptions", message("DeleteOptions")) + b"\x08\x00" * LARGE, MEDIA),
    ],
    ids=["json", "protobuf"],
)
async def test_large_delete_options_are_refused(body: bytes, media: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        refused = await api.refuse("DELETE", f"{PATH}/a", body, 413, headers={"content-type": media})
        assert "a DeleteOptions may have 65536 bytes at most" in refused


def test_counting_values() -> None:
    assert not is_large(b"[" + b"0," * (COUNTED_BYTES // 2 - 1) + b"]")
    assert is_large(b"[" + b"0," * COUNTED_BYTES + b"0]")
    assert is_large(
        b"[" + b"{}," * (COUNTED_BYTES // 3) + b"{}]"
    )  # short, but each takes as long as a large value
    assert check_values(b'{"a":"\\\\","b":["{,\\",",1]}') == 7  # short texts are counted with their strings
    quoted = b'{"a":"' + b'\\",{[' * TOO_MANY + b'","b":[1,2]}'
    assert check_values(quoted) == 4
