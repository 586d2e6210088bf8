"""Refusals quote what the client sent as Go's %q does: quotes, line ends and unprintable characters are escaped."""

from __future__ import annotations

from rewound.actors.golang.quoting import quoted
from tests.cases import cases, checking
from tests.gateway.api import ALICE
from tests.gateway.shared_server import shared

NAMES = {  # as they stand in a path, and in a message
    "%22a": r'"\"a"',
    "a%5Cb": r'"a\\b"',
    "a%00b": r'"a\x00b"',
    "a%0Ab": r'"a\nb"',
    "%7F": r'"\x7f"',
    "%C2%85": r'"\u0085"',
    "%E2%80%A8": r'"\u2028"',
    "%EE%80%80": r'"\ue000"',
    "%F3%A0%80%81": r'"\U000e0001"',
    "%C3%A9": '"é"',
    "%F0%9F%98%80": '"😀"',
}


async def test_name_in_a_path_is_quoted() -> None:
    async with shared() as api:
        with checking() as case:
            for name, shown in NAMES.items():
                with case(name):
                    gone = await api.ask("GET", f"/api/v1/namespaces/default/configmaps/{name}")
                    assert gone.expect(404)["message"] == f"configmaps {shown} not found"
                    path = f"/apis/{name}/v1/namespaces/{name}/boats/{name}"
                    refused = (await api.ask("GET", path, token=ALICE)).expect(403)["message"]
                    assert refused.endswith(
                        f'{shown} is forbidden: User "alice" cannot get resource "boats" in API group {shown} '
                        f"in the namespace {shown}"
                    )
                    refused = (await api.ask("GET", f"/x{name}", token=ALICE)).expect(403)["message"]
                    assert refused == f'forbidden: User "alice" cannot get path "/x{shown[1:]}'


async def test_name_in_a_body_is_quoted() -> None:
    async with shared() as api:
        path = "/api/v1/namespaces/default/configmaps"
        invalid = (await api.ask("POST", path, {"metadata": {"name": 'a"\n'}})).expect(422)["message"]
        assert invalid.startswith(
            r'ConfigMap "a\"\n" is invalid: metadata.name: Invalid value: "a\"\n": a lower'
        )
        body = b'{"metadata":{"name":"a"},"x\\"\\n":1,"x\\"\\n":2}'
        strict = (await api.ask("POST", path, body, fieldValidation="Strict")).expect(400)["message"]
        assert strict.endswith(r'strict decoding error: unknown field "x\"\n"')


@cases(
    "text, shown",
    [("a", '"a"'), ("", '""'), ("\a\b\f\r\t\v\x1b", r'"\a\b\f\r\t\v\x1b"'), ("\xad", r'"\u00ad"')],
)
def test_quoted_as_go_does(text: str, shown: str) -> None:
    assert quoted(text) == shown
