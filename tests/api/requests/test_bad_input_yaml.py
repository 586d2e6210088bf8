"""Malformed or hostile YAML bodies: a 400 with line and column, and nothing is written."""

from __future__ import annotations

import itertools

import pytest

from tests.api.requests.test_bad_input_json import OF_TYPE
from tests.cases import cases
from tests.gateway.api import config_map, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
YAML = {"content-type": "application/yaml"}
DEPTH = 100_000


def bomb(levels: int = 9, width: int = 9) -> bytes:
    """Each line has nine aliases of the line before it."""
    letters = "abcdefghijklmnop"[:levels]
    lines = [f"{letters[0]}: &{letters[0]} [{','.join('x' * width)}]"]
    for before, letter in itertools.pairwise(letters):
        lines.append(f"{letter}: &{letter} [{','.join([f'*{before}'] * width)}]")
    return "\n".join([*lines, "metadata: {name: a}\n"]).encode()


def merge_bomb() -> bytes:
    sources = ",".join(["*a"] * 1000)
    return "\n".join(["a: &a {k: v}", *(f"b{n}: {{<<: [{sources}]}}" for n in range(200)), ""]).encode()


BROKEN = {
    "a tab": (b"metadata:\n\tname: a\n", "line 2, column 1"),
    "cut off": (b"metadata: {name: a\n", "line 2, column 1"),
    "wrong indent": (b"metadata: b\n name: d\n", "line 2, column 6"),
    "two documents": (b"metadata: {name: a}\n---\nmetadata: {name: b}\n", "a second document"),
    "half a million documents": (b"---\n" * 500_000, "a second document"),
    "an alias bomb": (bomb(), "excessive aliasing"),
    "a merge bomb": (merge_bomb(), "excessive aliasing"),
    "an alias of itself": (b"metadata: &m {name: a, labels: *m}\n", "contains itself"),
    "an alias of nothing": (b"metadata: *missing\n", "unknown anchor 'missing'"),
    "a tag of another language": (b"metadata: !!python/object/apply:os.system [ls]\n", "unknown tag"),
    "deep flow lists": (b"[" * DEPTH, "nested deeper"),
    "deep flow maps": (b"{a: " * DEPTH, "nested deeper"),
    "deep closed lists": (b"[" * DEPTH + b"]" * DEPTH, "nested deeper"),
    "deep block lists": (b"- " * DEPTH + b"x", "nested deeper"),
    "a million digits": (b"metadata: {name: a, generation: " + b"9" * 1_000_000 + b"}\n", "out of range"),
    "a million hex digits": (b"metadata: {generation: 0x" + b"f" * 1_000_000 + b"}\n", "out of range"),
    "infinity": (b"metadata: {generation: .inf}\n", ".inf is not a number"),
    "invalid UTF-8": (b"metadata: {name: a\xff}\n", "line 1, column 19: invalid UTF-8"),
    "UTF-16": ("metadata: {name: a}\n".encode("utf-16"), "invalid UTF-8"),
    "a zero byte": (b"metadata: {name: a\x00}\n", "control characters are not allowed (U+0000)"),
    "half a pair": (b'data: {k: "\\ud800"}\n', "invalid Unicode"),
    "no key": (b"~: 1\n", "must not be null"),
    "a list for a key": (b"? [a]\n: b\n", "must be a scalar"),
    "a million stars": (b"*" * 1_000_000, "did not find expected"),
    "a million bangs": (b"!" * 1_000_000, "unknown tag"),
}


@pytest.mark.parametrize(("body", "expected"), BROKEN.values(), ids=BROKEN)
async def test_malformed_yaml_is_refused(body: bytes, expected: str) -> None:
    async with shared() as api:
        message = await api.refuse("POST", PATH, body, 400, headers=YAML)
        assert message.startswith("error converting YAML to JSON: yaml: line ")
        assert expected in message
        assert len(message) < 500


@cases("body", [b"", b"null\n", b"# nothing\n", b"- a\n", b"text", b"12"])
async def test_yaml_that_is_no_object_is_refused(body: bytes) -> None:
    async with shared() as api:
        assert "into Go value of type struct" in await api.refuse("POST", PATH, body, 400, headers=YAML)


@cases(
    ("value", "found"),
    [("no", "bool"), ("1.5", "number"), ("12", "number"), ("[a]", "array"), ("{a: b}", "object")],
)
async def test_plain_scalars_of_other_types_are_refused(value: str, found: str) -> None:
    async with shared() as api:
        body = f"metadata: {{name: a}}\ndata:\n  k: {value}\n".encode()
        assert f"cannot unmarshal {found}" in await api.refuse("POST", PATH, body, 400, headers=YAML)


async def test_moderate_aliases_are_accepted() -> None:
    async with served() as api:
        body = b"metadata: {name: a, labels: &l {app: web}, annotations: *l}\ndata: {<<: *l, k: v}\n"
        made = (await api.ask("POST", PATH, body, headers=YAML)).expect(201)
        assert made["metadata"]["annotations"] == {"app": "web"}
        assert made["data"] == {"app": "web", "k": "v"}


@pytest.mark.parametrize("body", [bomb(), b"{", b"- All\n", b"dryRun: All\n", b"kind: ConfigMap\n"])
async def test_malformed_delete_options_are_refused(body: bytes) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        refused = await api.refuse("DELETE", f"{PATH}/a", body, 400, headers=YAML)
        assert any(one in refused for one in ("DeleteOptions", *OF_TYPE))
