"""No module of actors contains a header, a media type or a status code, except those listed here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "rewound"
# Names of headers that are not used as words, and header values.
HEADERS = re.compile(
    r"(accept|cache|content|if|last|proxy|retry|sec|set|transfer|user|www|x)-"
    r"(after|agent|authenticate|authorization|control|cookie|disposition|encoding|forwarded-.*|language|length"
    r"|location|match|modified|modified-since|none-match|range|remote-.*|type|websocket-.*)"
    r"|bearer( .*)?|basic .*|etag|retry-after|audit-id|impersonate-.*"
)
MEDIA_TYPE = re.compile(r"(application|text|multipart)/[a-z0-9*.+-]+.*")
PROTOCOL = re.compile(r".*\bhttp/[0-9].*", re.DOTALL)
# Codes that are rarely a size or a count, unlike 200, 400 and 500.
STATUS_CODES = frozenset(
    (*range(201, 207), *range(301, 309), *range(401, 420), 422, 423, 426, 428, 429, 431, *range(501, 506))
)
KEPT = {
    ("actors/access/impersonation.py", "impersonate-on"): "is a verb of RBAC",
    (
        "actors/access/authentication/authenticate.py",
        "bearer",
    ): "reads the credentials that a client presents",
    (
        "actors/admission/webhooks/caller.py",
        "503",
    ): "metrics of Kubernetes count failed calls under this code",
    ("actors/names.py", "application/vnd.cluster.protobuf"): "one table has all names of a dialect",
    ("actors/names.py", "application/vnd.kubernetes.protobuf"): "one table has all names of a dialect",
}


# Only sources with one of these texts are parsed: parsing all others would take three seconds.
CANDIDATE = re.compile(
    "|".join(
        (
            HEADERS.pattern,
            r"(application|text|multipart)/[a-z0-9*]",
            r"http/[0-9]",
            rf"\b({'|'.join(map(str, sorted(STATUS_CODES)))})\b",
        )
    )
)


def spelled(source: str) -> Iterator[str]:
    if CANDIDATE.search(source.lower()) is None:
        return
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str):
                text = value.strip().rstrip(":").lower()
                if any(pattern.fullmatch(text) for pattern in (HEADERS, MEDIA_TYPE, PROTOCOL)):
                    yield text
            elif type(value) is int and value in STATUS_CODES:
                yield str(value)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = {"content-type": "application/json"}', ["content-type", "application/json"]),
        ('fields[b"Retry-After"]', ["retry-after"]),
        ('f"Bearer {token}"', ["bearer"]),
        ('line = b"GET / HTTP/1.1"', ["get / http/1.1"]),
        ("if status == 404: pass", ["404"]),
        ('"""Sends application/json."""\nkind = "Status"\nlimit = 500', []),
    ],
)
def test_headers_media_types_and_status_codes_are_found(source: str, found: list[str]) -> None:
    assert list(spelled(source)) == found


def test_actors_spell_no_http() -> None:
    found = {
        (str(path.relative_to(SOURCE)), text)
        for path in (SOURCE / "actors").rglob("*.py")
        for text in spelled(path.read_text())
    }
    assert found == KEPT.keys()
