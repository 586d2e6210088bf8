"""Refused requests and their bodies are freed at once, without waiting for the garbage collector."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from rewound.actors.messages import Create
from rewound.gateway.message import Request
from tests.cases import cases
from tests.gateway.api import ALICE, served

_TEXT = "a-." * 100_000  # enough for the worker thread


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@cases(
    "body, status",
    [
        (json.dumps({"metadata": {"name": _TEXT, "labels": {_TEXT: "x"}}}).encode(), 422),
        (b'{"data": ' + b" " * len(_TEXT) + b"]", 400),
        (json.dumps({"metadata": {"name": "a"}, "data": [_TEXT]}).encode(), 400),
        (json.dumps({"metadata": {"name": "victim"}, "data": {"a": _TEXT}}).encode(), 409),
    ],
)
async def test_refused_request_is_freed(body: bytes, status: int) -> None:
    async with served() as api:
        await api.create("configmaps", {"metadata": {"name": "victim"}})
        before = _held()  # by other tests of this process
        for _ in range(8):
            assert (await api.ask("POST", api.path("configmaps"), body)).status == status
        assert (
            len(_held()) - len(before) <= 4
        )  # which idle threads still refer to; without clearing it would be all eight


@pytest.mark.usefixtures("no_collection")
async def test_large_review_of_a_user_whose_flow_is_limited_is_freed() -> None:
    body = json.dumps({"spec": {"resourceAttributes": {"verb": _TEXT}}}).encode()
    async with served() as api:
        path = "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews"
        before = _held()
        for _ in range(8):
            assert (await api.ask("POST", path, body, token=ALICE)).status == 413
        assert len(_held()) - len(before) <= 4


def _held() -> list[Any]:
    """Large requests and commands in memory."""
    return [
        one
        for one in gc.get_objects()
        if (type(one) is Request and len(one.body) > 1000)
        or (type(one) is Create and len(str(one.object)) > 1000)
    ]
