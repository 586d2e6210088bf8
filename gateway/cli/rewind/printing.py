"""Documents of history and blame as text, and without the values of Secrets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson

from rewound.actors.golang.json import unescaped
from rewound.actors.rewind.difference import (
    MANAGED_FIELDS,
    RESOURCE_VERSION,
    describe,
    difference,
    escaped,
    shortened,
)
from rewound.gateway.cli.journal.query.folder import MASK, masked, masked_pair
from rewound.gateway.cli.rewind.source import Document

_SIGNS = {"add": "+", "remove": "-", "replace": "~"}
_SECRET_FIELDS = ("data", "stringData")


def print_json(document: Any) -> None:
    sys.stdout.write(unescaped(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_yaml(document: Any) -> None:
    from rewound.gateway.wire.yaml import from_json

    sys.stdout.write(from_json(unescaped(document)).decode())


def print_lines(lines: Iterator[str] | list[str]) -> None:
    for line in lines:
        print(escaped(line))


def operation_lines(patch: list[Document] | None, indent: str = "") -> Iterator[str]:
    """`~ /data/color: "red"`, a line for each operation; a whole object is one word."""
    for one in patch or ():
        if one["path"] == "":
            yield f"{indent}{_SIGNS[one['op']]} the object"
        elif "value" in one:
            yield f"{indent}{_SIGNS[one['op']]} {one['path']}: {shortened(one['value'])}"
        else:
            yield f"{indent}{_SIGNS[one['op']]} {one['path']}"


def difference_lines(before: Document | None, after: Document | None, *, mask: bool) -> list[str]:
    """`~ data.color: "blue" -> "red"`, a line for each field, like the text of the API."""
    if before is None or after is None:
        return (
            ["nothing changed"] if before is after else ["+ the object" if before is None else "- the object"]
        )
    if mask:
        before, after = masked_pair(before, after)
    changes = difference(before, after, RESOURCE_VERSION | {MANAGED_FIELDS})
    return [f"{one.sign} {describe(one)}" for one in changes] or ["nothing changed"]


def masked_object(document: Document) -> Document:
    result: Document = orjson.loads(masked(unescaped(document)))
    return result


def masked_patch(patch: list[Document] | None) -> list[Document] | None:
    """The operations of a Secret without its values."""
    return None if patch is None else [_masked_operation(one) for one in patch]


def _masked_operation(one: Document) -> Document:
    if "value" not in one:
        return one
    if one["path"] == "":
        return {**one, "value": masked_object(one["value"])}
    if one["path"].split("/")[1] in _SECRET_FIELDS or one["path"].startswith("/metadata/annotations"):
        value = one["value"]
        return {**one, "value": dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK}
    return one


def masked_field(one: Document) -> Document:
    """A field of a Secret in blame."""
    hidden = one["path"].split("/")[1] in _SECRET_FIELDS or one["path"].startswith("/metadata/annotations")
    return {**one, "value": MASK} if hidden else one
