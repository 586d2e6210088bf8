"""An observer records user, attributes, decision and response of API requests."""

from __future__ import annotations

import pytest
from msgspec.structs import astuple

from rewound.actors.access.authorize import ALLOWED, NO_OPINION
from rewound.gateway.handlers.dispatch import Dispatch
from rewound.server.extensions import Extensions
from tests.gateway.api import ALICE, config_map, served
from tests.gateway.observing import Observer

PATH = "/api/v1/namespaces/default/configmaps"
STAGES = ["received", "attributes", "decision", "complete"]


async def test_write_and_read_are_recorded() -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        made = await api.ask("POST", PATH, config_map("a"))
        read = await api.ask("GET", f"{PATH}/a")
        create, get = await observer.ended(2, PATH)
    assert [create.stages, get.stages] == [STAGES, STAGES]
    assert (create.end, get.end) == ((201, len(made.body), False), (200, len(read.body), False))
    assert create.observed_attributes is not None and get.observed_attributes is not None
    assert astuple(create.observed_attributes)[1:10] == (
        "create",
        "",
        "v1",
        "configmaps",
        "",
        "default",
        "",
        PATH,
        True,
    )
    assert (get.observed_attributes.user.name, get.observed_attributes.name) == ("admin", "a")
    assert create.observed_decision == ALLOWED


async def test_compressed_response_counts_compressed_bytes() -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        await api.create("configmaps", config_map("a", b="x" * 200_000))
        plain = await api.ask("GET", f"{PATH}/a", headers={"accept-encoding": "identity"})
        await api.ask("GET", f"{PATH}/a", headers={"accept-encoding": "gzip"})
        whole, packed = await observer.ended(2, f"{PATH}/a")
    assert whole.sent == len(plain.body)
    assert 0 < packed.sent < 20_000


@pytest.mark.parametrize(
    ("path", "token", "status", "stages"),
    [
        (PATH, "unknown", 401, ["received", "complete"]),
        (PATH, ALICE, 403, STAGES),
        (f"{PATH}/nope", None, 403, STAGES),
        ("/nowhere", ALICE, 403, STAGES),
    ],
)
async def test_refused_request_is_recorded(
    path: str, token: str | None, status: int, stages: list[str]
) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        response = await api.ask("GET", path, token=token)
        [record] = await observer.ended(1, path)
    assert (record.stages, record.end) == (stages, (status, len(response.body), False))
    assert record.observed_decision == (None if status == 401 else NO_OPINION)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nowhere", 404), (f"{PATH}/nope", 404), (f"{PATH}?limit=many", 400), ("/api/v1/nothings", 404)],
)
async def test_failing_request_is_recorded(path: str, status: int) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        response = await api.ask("GET", path)
        [record] = await observer.ended(1, path.partition("?")[0])
    assert record.end == (status, len(response.body), False)


async def test_malformed_query_is_refused_before_authentication() -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        response = await api.ask("GET", f"{PATH}?timeout=soon")
        [record] = await observer.ended(1, PATH)
    assert (record.stages, record.end) == (["received", "complete"], (400, len(response.body), False))


async def test_internal_error_is_recorded_as_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        monkeypatch.setattr(Dispatch, "find", lambda *_: 1 / 0)
        response = await api.ask("GET", PATH)
        [record] = await observer.ended(1, PATH)
        monkeypatch.undo()
    assert record.stages == ["received", "attributes", "decision", "panic", "complete"]
    assert isinstance(record.error, ZeroDivisionError)
    assert record.end == (500, len(response.body), False)
