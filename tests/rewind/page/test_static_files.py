"""The files of the page at /debug/journal/: who may get them, their headers, and what they must not contain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewound.rewind import page
from tests.cases import cases
from tests.gateway.api import served

PAGE = "/debug/journal/"
STATIC = Path(str(page.__file__)).parent / "static"
NAMES = sorted(path.name for path in STATIC.iterdir())
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def test_everybody_gets_the_files_with_strict_headers() -> None:
    async with served() as api:
        for name in ("", *NAMES):
            if name == "index.html":
                continue
            found = await api.ask("GET", PAGE + name, token=None)
            assert found.status == 200
            path = STATIC / (name or "index.html")
            assert found.body == path.read_bytes()
            headers = found.headers
            assert headers["content-type"] == TYPES[path.suffix]
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-cache"
            assert "set-cookie" not in headers
            policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
            assert policy == {
                "default-src": "'none'",
                "script-src": "'self'",
                "style-src": "'self'",
                "connect-src": "'self'",
                "img-src": "'self'",
                "frame-ancestors": "'none'",
                "base-uri": "'none'",
                "form-action": "'none'",
            }
            tag = {"if-none-match": headers["etag"]}
            unchanged = await api.ask("GET", PAGE + name, token=None, headers=tag)
            assert (unchanged.status, unchanged.body) == (304, b"")


async def test_the_folder_without_a_slash_leads_to_the_page() -> None:
    async with served() as api:
        moved = await api.ask("GET", "/debug/journal?type=pods", token=None)
        assert (moved.status, moved.headers["location"]) == (308, PAGE)


@pytest.mark.parametrize(
    "path",
    [
        "../handler.py",
        "..%2fhandler.py",
        "%2e%2e/handler.py",
        "..%5chandler.py",
        "static/app.js",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "index.html",
        "app.js%00.css",
        "app.js/",
        "APP.JS",
        "__init__.py",
    ],
)
async def test_no_path_leads_out_of_the_folder(path: str) -> None:
    async with served() as api:
        found = await api.ask("GET", PAGE + path, token=None)
        assert found.status in (403, 404)
        assert b"import" not in found.body


async def test_other_methods_and_other_debug_paths_are_refused() -> None:
    async with served() as api:
        assert (await api.ask("POST", PAGE, {}, token=None)).status == 405
        assert (await api.ask("GET", "/debug/journalists", token=None)).status == 403
        assert (await api.ask("GET", "/debug/", token=None)).status == 403
        assert (await api.ask("HEAD", PAGE, token=None)).status == 200


async def test_it_can_be_switched_off() -> None:
    async with served(enable_journal_page=False) as api:
        assert (await api.ask("GET", PAGE)).status == 404
        assert (await api.ask("GET", PAGE, token=None)).status == 403
        assert (await api.ask("GET", "/apis/rewound.cluster.io/v1/timeline")).status == 404


async def test_files_need_no_credentials_where_everything_else_does() -> None:
    async with served(anonymous_auth=False, authorization_mode="AlwaysAllow") as api:
        for token in (None, "wrong"):
            assert (await api.ask("GET", PAGE, token=token)).status == 200
            for path in ("/healthz", "/debug/", "/debug/journals", "/apis/rewound.cluster.io/v1/timeline"):
                assert (await api.ask("GET", path, token=token)).status == 401


# What would let text from the journal become markup or code, or load something from elsewhere.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc"
    r"|createContextualFragment|javascript:|https?://(?!www\.w3\.org/)|document\.cookie|localStorage"
    r"|setTimeout\(\s*[\"'`]|import\(|\.style\.cssText"
)
INLINE = re.compile(
    r"\son\w+\s*=|<script(?![^>]*\ssrc=)|<style|\sstyle\s*=|<iframe|<object|<embed|<base", re.I
)


@cases("name", NAMES)
def test_files_have_nothing_that_makes_text_into_code(name: str) -> None:
    text = (STATIC / name).read_text()
    assert FORBIDDEN.findall(text) == []
    if name.endswith((".html", ".svg")):
        assert INLINE.findall(text) == []


def test_files_are_small() -> None:
    """Less than a quarter of the megabyte that the first view may transfer."""
    assert sum((STATIC / name).stat().st_size for name in NAMES) < 240_000
