"""Malformed or excessive JSON bodies: a 400 with the position, and nothing is written."""

from __future__ import annotations

from tests.cases import cases
from tests.gateway.api import config_map, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
DEPTH = 10_000

BROKEN = {
    "nothing": (b"", "unexpected end of JSON input ("),
    "spaces": (b" " * 3_000_000, "unexpected end of JSON input ("),
    "cut off": (b'{"metadata":{"name":"a"', "unexpected end of JSON input ("),
    "more behind it": (b'{"metadata":{"name":"a"}} x', "offset 26"),
    "two objects": (b'{"metadata":{"name":"a"}}{"metadata":{"name":"b"}}', "offset 25"),
    "single quotes": (b"{'metadata':{}}", "offset 1"),
    "a comma too many": (b'{"metadata":{"name":"a",}}', "offset 24"),
    "a comment": (b'{/* no */"metadata":{"name":"a"}}', "offset 1"),
    "not a number": (b'{"metadata":{"generation":NaN}}', "NaN"),
    "infinity": (b'{"metadata":{"generation":-Infinity}}', "Infinity"),
    "a byte order mark": (b'\xef\xbb\xbf{"metadata":{"name":"a"}}', "offset 0"),
    "UTF-16": ('{"metadata":{"name":"a"}}'.encode("utf-16"), "offset 0"),
    "a zero byte": (b'{"metadata":{"name":"a\x00"}}', "offset 22"),
    "a line break in a string": (b'{"metadata":{"name":"a\n"}}', "offset 22"),
    "half an escape": (b'{"metadata":{"name":"\\u12"}}', "offset"),
    "deep lists": (b"[" * DEPTH, "max depth"),
    "deep objects": (b'{"a":' * DEPTH, "max depth"),
    "deep and closed": (b'{"x":' + b"[" * DEPTH + b"]" * DEPTH + b"}", "max depth"),
    "deep in a known field": (b'{"data":' + b'{"a":' * DEPTH + b"1" + b"}" * DEPTH + b"}", "max depth"),
}
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap)"
NOT_OBJECTS = {"null": b"null", "array": b"[]", "string": b'"text"', "number": b"12", "bool": b"true"}


@cases(("body", "expected"), BROKEN.values(), ids=BROKEN)
@cases("method", ["POST", "PUT"])
async def test_malformed_json_is_refused(method: str, body: bytes, expected: str) -> None:
    async with shared() as api:
        path = PATH if method == "POST" else f"{PATH}/a"
        message = await api.refuse(method, path, body, 400)
        assert message.startswith(f"{UNRECOGNIZED}: couldn't get version/kind; json parse error: ")
        assert expected in message


@cases(("found", "body"), NOT_OBJECTS.items())
async def test_json_that_is_no_object_is_refused(found: str, body: bytes) -> None:
    async with shared() as api:
        message = await api.refuse("POST", PATH, body, 400)
        assert f"json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string" in message
        assert message.endswith(f"}} ({body.hex()})")


@cases("number", [b"9" * 60_000, b"1." + b"9" * 60_000, b"1e999999999", b"-" + b"9" * 400])
async def test_numbers_out_of_range_are_refused(number: bytes) -> None:
    async with shared() as api:
        body = b'{"metadata":{"name":"a","generation":' + number + b"}}"
        message = await api.refuse("POST", PATH, body, 400)
        assert "metadata.generation" in message
        assert len(message) < 500


async def test_long_number_in_an_unknown_field_is_dropped() -> None:
    async with served() as api:
        body = b'{"metadata":{"name":"a"},"unknown":' + b"9" * 60_000 + b"}"
        response = await api.ask("POST", PATH, body)
        assert response.status == 201
        assert response.warnings == ['299 - "unknown field \\"unknown\\""']


DELETE_OPTIONS = {
    "cut off": (b"{", 400),
    "no object": (b"[]", 400),
    "another kind": (b'{"kind":"ConfigMap"}', 400),
    "deep": (b'{"a":' * DEPTH, 400),
    "invalid UTF-8": (b'{"kind":"\xff"}', 400),
    "half a pair": (b'{"preconditions":{"uid":"\\ud800"}}', 400),
    "a long number": (b'{"gracePeriodSeconds":' + b"9" * 60_000 + b"}", 400),
    "a fraction": (b'{"gracePeriodSeconds":1.5}', 400),
    "a string for a number": (b'{"gracePeriodSeconds":"1"}', 400),
    "a word for a list": (b'{"dryRun":"All"}', 400),
    "a dry run of something": (b'{"dryRun":["Some"]}', 422),
    "an unknown policy": (b'{"propagationPolicy":"Sometimes"}', 422),
    "two policies": (b'{"propagationPolicy":"Orphan","orphanDependents":true}', 422),
    "preconditions that are a list": (b'{"preconditions":[]}', 400),
    "a uid that is a number": (b'{"preconditions":{"uid":1}}', 400),
}

OF_TYPE = ("couldn't get version/kind; json parse error: ", "no kind ")


@cases(("body", "code"), DELETE_OPTIONS.values(), ids=DELETE_OPTIONS)
async def test_malformed_delete_options_are_refused(body: bytes, code: int) -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        for path in (f"{PATH}/a", PATH):
            message = await api.refuse("DELETE", path, body, code)
            assert any(one in message for one in ("DeleteOptions", "Preconditions.", *OF_TYPE))
            assert len(message) < 500


@cases(
    "body, summary",
    [
        (b"", "<empty>"),
        (b'{"data":', '{"data":'),
        (b'{"metadata":{"name":"a"},"data":', '{"metadata":{"name":"a"},"data ...'),
        (b"kind: ConfigMap", b"kind: ConfigMap".hex()),
        (b"a" * 31, f"{'61' * 30} ..."),
    ],
)
async def test_refusal_shows_the_beginning_of_the_body(body: bytes, summary: str) -> None:
    async with shared() as api:
        assert (await api.refuse("POST", PATH, body, 400)).endswith(f" ({summary})")
        message = await api.refuse("POST", PATH.replace("configmaps", "secrets"), body, 400)
        assert message.endswith(" (<secret contents redacted>)")
