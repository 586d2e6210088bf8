"""Shortens the Status of an error that would be long: values of a body may be megabytes, and its errors thousands.

Ordinary errors pass through unchanged. Of a long one, beginning and end of the message and the first causes stay, and
the response says how much it leaves out.
"""

from __future__ import annotations

from typing import Any, Final

from actors.go_json import dumps

# Of the whole document. Clients show it to people, and a body that is refused must not cost as much as one that is not.
MAX_BYTES: Final = 64 * 1024
# An escaped character takes up to six bytes.
_MESSAGE: Final = 6_000
_TEXT: Final = 1_000
_CAUSES_BYTES: Final = 24 * 1024


def shorten(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a Status, with at most `MAX_BYTES` bytes as JSON."""
    if len(dumps(document)) <= MAX_BYTES:
        return document
    shortened = {**document, "message": _cut(document["message"], _MESSAGE)}
    if "details" in document:
        shortened["details"] = {name: _cut_detail(value) for name, value in document["details"].items()}
    return shortened


def _cut_detail(value: Any) -> Any:
    if isinstance(value, list):
        return _cut_causes(value)
    return _cut(value, _TEXT) if isinstance(value, str) else value


def _cut_causes(causes: list[dict[str, str]]) -> list[dict[str, str]]:
    kept: list[dict[str, str]] = []
    size = 0
    for index, cause in enumerate(causes):
        cut = {name: _cut(text, _TEXT) for name, text in cause.items()}
        size += len(dumps(cut))
        if size > _CAUSES_BYTES:
            return [*kept, {"message": f"and {len(causes) - index} more"}]
        kept.append(cut)
    return kept


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a text: what is wrong with a long value comes after it."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{text[-half:]}"
