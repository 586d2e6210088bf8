"""fieldValidation: unknown fields are dropped with a warning, dropped silently, or refused."""

from __future__ import annotations

import orjson
import pytest

from tests.cases import cases
from tests.gateway.api import names, served
from tests.gateway.shared_server import shared

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
async def test_unknown_fields_are_dropped(method: str, query: str, warned: bool) -> None:
    async with served() as api:
        if method == "PUT":
            await api.create("configmaps", {"metadata": {"name": "a"}})
        path = PATH if method == "POST" else f"{PATH}/a"
        response = await api.ask(method, path + query, BODY)
        assert response.warnings == (WARNINGS if warned else [])
        stored = response.expect(201 if method == "POST" else 200)
        assert stored["metadata"]["labels"] == {"x": "2"}
        assert stored["data"] == {"k": "1", "l": "2"}
        assert "extra" not in stored
        assert "nmae" not in stored["metadata"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_unknown_fields_are_refused_by_strict(method: str) -> None:
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


@cases("mode", ["Ignore", "Warn", "Strict"])
async def test_invalid_alone_is_422_in_every_mode(mode: str) -> None:
    async with shared() as api:
        body = b'{"metadata": {"name": "a", "labels": {"a b": ""}}}'
        assert "a b" in await api.refuse("POST", PATH, body, 422, fieldValidation=mode)


async def test_body_without_unknown_fields_has_no_warnings() -> None:
    async with served() as api:
        for mode in ("Ignore", "Warn", "Strict"):
            body = b'{"metadata": {"generateName": "a-"}, "data": {"k": "v"}}'
            response = await api.ask("POST", PATH, body, fieldValidation=mode)
            assert (response.status, response.warnings) == (201, [])


async def test_yaml_reports_the_same_fields_with_lines() -> None:
    async with served() as api:
        body = b"metadata:\n  name: a\n  nmae: b\ndata:\n  k: '1'\n  k: '2'\nextra: 1\n"
        response = await api.ask("POST", PATH, body, headers={"content-type": "application/yaml"})
        assert sorted(response.warnings) == sorted(
            f'299 - "{problem}"'
            for problem in (
                'unknown field \\"metadata.nmae\\"',
                'line 6: key \\"k\\" already set in map',
                'unknown field \\"extra\\"',
            )
        )
        assert response.expect(201)["data"] == {"k": "2"}


async def test_yaml_problems_are_in_key_order() -> None:
    async with served() as api:
        body = b"extra: 1\ndata:\n  k: '1'\n  k: '2'\nmetadata:\n  name: a\n  nmae: b\n"
        headers = {"content-type": "application/yaml"}
        response = await api.ask("POST", PATH, body, headers=headers, fieldValidation="Strict")
        assert response.expect(400)["message"].endswith(
            'strict decoding error: yaml: unmarshal errors:\n  line 4: key "k" already set in map, '
            'unknown field "extra", unknown field "metadata.nmae"'
        )


@pytest.mark.parametrize("body", [b"data:\n  k: x\n  k: z\n", b'{"data": {"k": "x",\n\n"k": "z"}}'])
async def test_apply_reports_problems_as_yaml_does(body: bytes) -> None:
    async with served() as api:
        whole = body.replace(b"data", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata", 1)
        if body.startswith(b"{"):
            whole = body.replace(b"{", b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},', 1)
        headers = {"content-type": "application/apply-patch+yaml"}
        response = await api.ask("PATCH", f"{PATH}/a", whole, headers=headers, fieldManager="m")
        line = 3 if body.startswith(b"{") else 6
        assert response.warnings == [f'299 - "line {line}: key \\"k\\" already set in map"']
        assert response.expect(201)["data"] == {"k": "z"}


async def test_dry_run_warns_too() -> None:
    async with served() as api:
        response = await api.ask("POST", PATH, BODY, dryRun="All")
        assert response.warnings == WARNINGS
        assert (await api.ask("POST", PATH, BODY, dryRun="All", fieldValidation="Strict")).status == 400
        assert names(await api.list("configmaps")) == []


async def test_warnings_about_many_unknown_fields_are_limited() -> None:
    body = orjson.dumps({"metadata": {"name": "a"}, **{f"extra{number}": 1 for number in range(300)}})
    async with shared() as api:
        response = await api.ask("POST", PATH, body, dryRun="All")
        assert len(response.headers.multi_items()) < 80
        assert response.warnings[0] == '299 - "unknown field \\"extra0\\""'
        assert response.warnings[-1] == '299 - "and 250 more such problems"'
        message = await api.refuse("POST", PATH, body, 400, fieldValidation="Strict")
        assert message.endswith('unknown field "extra49", and 250 more such problems')
