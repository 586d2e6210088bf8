"""Large schemas are compiled and described only in worker threads, whatever needs them first."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest

from rewound.actors.kinds.structural import compile as compiling
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.gateway.describe.openapi import custom, schemas
from tests.api.custom.kinds import (
    DEFINITIONS,
    GROUP,
    MERGE,
    NAME,
    WIDGETS,
    change_schema,
    define,
    definition,
    gone,
    version,
    widget,
)
from tests.gateway.api import served
from tests.gateway.watch.watching import watching

TEXT = {"type": "string", "description": "A text that makes the schema large."}


def large(default: str) -> dict[str, Any]:
    many = {f"property-{number}": TEXT for number in range(1500)}
    return {"type": "object", "properties": {**many, "colour": {"type": "string", "default": default}}}


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions called in the event loop that take time proportional to the size of a schema."""
    called: list[str] = []
    steps = [
        (compiling, "parse_schema"),
        (compiling, "compile_validity"),
        (compiling, "compile_embedded"),
        (compiling, "most_checks"),
        (custom, "published"),
        (schemas, "published"),
    ]
    for module, name in steps:
        original = getattr(module, name)

        def recorded(*given: Any, original: Any = original, name: str = name, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                called.append(name)
            return original(*given, **options)

        monkeypatch.setattr(module, name, recorded)
    return called


async def test_objects_of_a_large_schema(on_the_loop: list[str]) -> None:
    async with served() as api:
        await define(api, definition(version(spec=large("red"))))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        await change_schema(api, large("blue"))
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"]["colour"] == "red"
        patched = await api.ask("PATCH", f"{WIDGETS}/a", {"spec": {"colour": None}}, headers=MERGE)
        assert patched.expect(200)["spec"]["colour"] == "blue"
        assert on_the_loop == []


async def test_objects_that_controllers_remove_after_a_change_of_the_schema(on_the_loop: list[str]) -> None:
    async with served() as api:
        await define(api, definition(version(spec=large("red"))))
        (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        await change_schema(api, large("blue"))
        (await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)
        await gone(api, f"{DEFINITIONS}/{NAME}")
        assert on_the_loop == []


async def test_deletion_of_a_large_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop does not parse the schema: a megabyte would block all other requests for 20 milliseconds."""
    parsed: list[int] = []
    original = orjson.loads

    def loads(given: Any) -> Any:
        if threading.current_thread() is threading.main_thread() and len(given) > LARGE_BYTES:
            parsed.append(len(given))
        return original(given)

    async with served() as api:
        await define(api, definition(version(spec=large("red"))))
        kept = widget("a")
        kept["metadata"]["finalizers"] = ["example.com/wait"]
        (await api.ask("POST", WIDGETS, kept)).expect(201)
        monkeypatch.setattr(orjson, "loads", loads)
        deleted = await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
        assert (deleted.status, len(deleted.body) > LARGE_BYTES) == (200, True)
        # Until its objects are removed, the kind is served with its schema, but no object can be created.
        assert (await api.ask("POST", WIDGETS, widget("b"))).status == 405
        shown = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
        assert shown["spec"]["colour"] == "red"
        freed = {"metadata": {"finalizers": None}}
        assert (await api.ask("PATCH", f"{WIDGETS}/a", freed, headers=MERGE)).status == 200
        await gone(api, f"{DEFINITIONS}/{NAME}")
        assert (await api.ask("GET", WIDGETS)).status == 404
        assert parsed == []


async def test_watches_that_continue_after_a_change_of_the_schema(on_the_loop: list[str]) -> None:
    """The watch uses another version than the writes, whose schema nothing else needs."""

    def versions(default: str) -> list[dict[str, Any]]:
        return [version(spec=large("")), version("v2", storage=False, spec=large(default))]

    async with served() as api:
        await define(api, definition(*versions("red")))
        async with watching(api, WIDGETS.replace("/v1/", "/v2/")) as watch:
            (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
            assert await watch.types_and_names(1) == [("ADDED", "a")]
            changed = {"spec": {"versions": versions("blue")}}
            (await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", changed, headers=MERGE)).expect(200)
            (await api.ask("POST", WIDGETS, widget("b"))).expect(201)
            assert await watch.types_and_names(1) == [("ADDED", "b")]
        assert on_the_loop == []


async def test_descriptions_of_a_large_schema(on_the_loop: list[str]) -> None:
    async with served() as api:
        await define(api, definition(version(spec=large("red"))))
        name = "com.example.v1.Widget"
        third = (await api.ask("GET", f"/openapi/v3/apis/{GROUP}/v1")).expect(200)
        assert "colour" in third["components"]["schemas"][name]["properties"]["spec"]["properties"]
        second = (await api.ask("GET", "/openapi/v2")).expect(200)
        assert "colour" in second["definitions"][name]["properties"]["spec"]["properties"]
        assert on_the_loop == []
