"""fieldValidation: what the schema does not know is dropped with a warning, dropped silently, or refused."""

from __future__ import annotations

import pytest

from tests.gateway.api import names, served

PATH = "/api/v1/namespaces/default/configmaps"
BODY = b"""
{"metadata": {"name": "a", "nmae": "b", "labels": {"x": "1", "x": "2"}},
 "data": {"k": "1"}, "data": {"l": "2"}, "extra": {"deep": [1]}}
"""
PROBLEMS = [
    'unknown field \\"metadata.nmae\\"',
    'duplicate field \\"metadata.labels.x\\"',
    'duplicate field \\"data\\"',
    'unknown field \\"extra\\"',
]
WARNINGS = [f'299 - "{problem}"' for problem in PROBLEMS]


@pytest.mark.parametrize(
    ("query", "warned"), [("", True), ("?fieldValidation=Warn", True), ("?fieldValidation=Ignore", False)]
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_dropped(method: str, query: str, warned: bool) -> None:
    async with served() as api:
        if method == "PUT":
            await api.create("configmaps", {"metadata": {"name": "a"}})
        path = PATH if method == "POST" else f"{PATH}/a"
        answer = await api.ask(method, path + query, BODY)
        assert answer.warnings == (WARNINGS if warned else [])
        stored = answer.expect(201 if method == "POST" else 200)
        assert stored["metadata"]["labels"] == {"x": "2"}
        assert stored["data"] == {"k": "1", "l": "2"}
        assert "extra" not in stored
        assert "nmae" not in stored["metadata"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_refused(method: str) -> None:
    async with served() as api:
        if method == "PUT":
            await api.create("configmaps", {"metadata": {"name": "a"}})
        path = PATH if method == "POST" else f"{PATH}/a"
        message = await api.refuse(method, path, BODY, 400, fieldValidation="Strict")
        listed = ", ".join(problem.replace("\\", "") for problem in PROBLEMS)
        assert message.endswith(f"strict decoding error: {listed}")


@pytest.mark.parametrize("mode", ["Ignore", "Warn", "Strict"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_unknown_beside_invalid_is_400_in_every_mode(method: str, mode: str) -> None:
    async with served() as api:
        await api.create("configmaps", {"metadata": {"name": "b"}})
        path = PATH if method == "POST" else f"{PATH}/b"
        body = b'{"metadata": {"name": "b", "labels": {"a b": ""}}, "extra": 1}'
        message = await api.refuse(method, path, body, 400, fieldValidation=mode)
        assert 'unknown field "extra"' in message


@pytest.mark.parametrize("mode", ["Ignore", "Warn", "Strict"])
async def test_invalid_alone_is_422_in_every_mode(mode: str) -> None:
    async with served() as api:
        body = b'{"metadata": {"name": "a", "labels": {"a b": ""}}}'
        assert "a b" in await api.refuse("POST", PATH, body, 422, fieldValidation=mode)


async def test_a_known_body_warns_of_nothing() -> None:
    async with served() as api:
        for mode in ("Ignore", "Warn", "Strict"):
            body = b'{"metadata": {"generateName": "a-"}, "data": {"k": "v"}}'
            answer = await api.ask("POST", PATH, body, fieldValidation=mode)
            assert (answer.status, answer.warnings) == (201, [])


async def test_yaml_reports_the_same() -> None:
    async with served() as api:
        body = b"metadata:\n  name: a\n  nmae: b\ndata:\n  k: '1'\n  k: '2'\nextra: 1\n"
        answer = await api.ask("POST", PATH, body, headers={"content-type": "application/yaml"})
        assert sorted(answer.warnings) == sorted(
            f'299 - "{problem}"'
            for problem in (
                'unknown field \\"metadata.nmae\\"',
                'duplicate field \\"data.k\\"',
                'unknown field \\"extra\\"',
            )
        )
        assert answer.expect(201)["data"] == {"k": "2"}


async def test_a_dry_run_tells_too() -> None:
    async with served() as api:
        answer = await api.ask("POST", PATH, BODY, dryRun="All")
        assert answer.warnings == WARNINGS
        assert (await api.ask("POST", PATH, BODY, dryRun="All", fieldValidation="Strict")).status == 400
        assert names(await api.list("configmaps")) == []
