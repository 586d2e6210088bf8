"""Hostile request bodies, generated from the declaration of a kind: as large, as deep and as repetitive as they can be.

One seed determines each request, so that a failure names everything needed to send it again. Documents mostly follow
the declaration closely enough to be decoded: a document that is not decoded never reaches the rules. Sizes are in
bytes of the encoded body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import orjson
import yaml

from rewound.actors.kinds.declaration.definition import Definition
from tests.actors.kinds.growing import STYLES, Growing, paths_of

JSON, YAML = "application/json", "application/yaml"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
NAME: Final = "a"
LARGEST_YAML: Final = 200_000  # encoding it here takes longer than decoding it there

_NUMBERS: Final = ("1e400", "9" * 400, "-" + "9" * 30, "1e-400", "0.1", "-0", "12345678901234567890")
_LETTERS: Final = ("x", "\u0000", "ü", "\U0001f600", '"', "a.", "a-", "/", "1", "-----BEGIN A-----\n", " ")


@dataclass(frozen=True, slots=True)
class HostileRequest:
    method: str
    path: str
    media: str
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.path} with {len(self.body)} bytes of {self.media}: {self.body[:200]!r}"


def hostile_request(definition: Definition, seed: int, size: int) -> HostileRequest:
    """A request to create, replace, patch or apply an object of this kind, with a body of about `size` bytes."""
    random = Random(seed)
    verbs = [verb for verb in ("create", "update", "patch") if verb in definition.verbs]
    verb = random.choice(verbs)
    document = _document(definition, random, size)
    path = _collection(definition)
    if verb == "create":
        return HostileRequest("POST", path, *_encoded(document, random))
    if verb == "update":
        return HostileRequest("PUT", f"{path}/{NAME}", *_encoded(document, random))
    return _patch(definition, f"{path}/{NAME}", document, random)


def _collection(definition: Definition) -> str:
    root = f"/apis/{definition.api_version}" if definition.group else "/api/v1"
    return (
        f"{root}/namespaces/default/{definition.plural}"
        if definition.namespaced
        else f"{root}/{definition.plural}"
    )


def _document(definition: Definition, random: Random, size: int) -> dict[str, Any]:
    paths = list(paths_of(definition.fields))
    grown = tuple(random.sample(paths, min(len(paths), random.choice((1, 1, 2, 5))))) if paths else ()
    style = random.choice(STYLES)

    def document(count: int) -> dict[str, Any]:
        return Growing(style, grown, count).document(definition.fields)

    small, more = (len(orjson.dumps(document(count))) for count in (1, 11))
    count = max(1, (size - small) * 10 // max(more - small, 10))
    found = document(min(count, size // 4))
    found |= {"apiVersion": definition.api_version, "kind": definition.kind}
    random.choice(_CHANGES)(found, random, size)
    return found


def _unchanged(_: dict[str, Any], __: Random, ___: int) -> None:
    pass


def _long_text(document: dict[str, Any], random: Random, size: int) -> None:
    """One string of the document becomes as long as the body may be."""
    letters = random.choice(_LETTERS)
    _replace_leaf(document, random, letters * (size // len(letters.encode())))


def _deep(document: dict[str, Any], random: Random, _: int) -> None:
    value: Any = "x"
    for _level in range(random.choice((20, 100, 200))):  # nesting beyond this is for tests of the parsers
        value = [value] if random.random() < 0.5 else {"a": value}
    _replace_leaf(document, random, value)


def _many_names(document: dict[str, Any], random: Random, size: int) -> None:
    holder = random.choice((document, document["metadata"]))
    holder |= {f"unknown{index}": index for index in range(size // 20)}


def _many_labels(document: dict[str, Any], random: Random, size: int) -> None:
    part = random.choice(("labels", "annotations"))
    document["metadata"][part] = {f"example.com/k{index}": "v" for index in range(size // 24)}


_CHANGES: Final[tuple[Callable[[dict[str, Any], Random, int], None], ...]] = (
    *(_unchanged, _unchanged, _unchanged),
    *(_long_text, _deep, _many_names, _many_labels),
)


def _replace_leaf(document: dict[str, Any], random: Random, value: Any) -> None:
    holder: Any = document
    while True:
        key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        if not isinstance(holder[key], (dict, list)) or not holder[key]:
            break
        holder = holder[key]
    if holder is not document:  # the content type decides which parser reads it
        holder[key] = value


def _encoded(document: dict[str, Any], random: Random) -> tuple[str, bytes]:
    raw = orjson.dumps(document)
    if len(raw) < LARGEST_YAML and random.random() < 0.2:
        return YAML, yaml.safe_dump(document).encode()
    roll = random.random()
    if roll < 0.1:
        return JSON, raw.replace(b":1", b":" + random.choice(_NUMBERS).encode())
    if roll < 0.2:  # every member twice at the top
        return JSON, raw[:-1] + b"," + raw[1:]
    return JSON, raw[: len(raw) // 2] if roll > 0.97 else raw


def _patch(definition: Definition, path: str, document: dict[str, Any], random: Random) -> HostileRequest:
    kinds = [MERGE, JSON_PATCH, APPLY, *([STRATEGIC] if definition.strategic_merge_patch else [])]
    media = random.choice(kinds)
    if media == JSON_PATCH:
        changes = [
            {"op": random.choice(("add", "replace", "test")), "path": f"/{name}", "value": value}
            for name, value in document.items()
        ]
        many = [{"op": "copy", "from": "/spec", "path": "/metadata"}] * random.choice((0, 0, 100, 9000))
        return HostileRequest("PATCH", path, media, orjson.dumps([*changes, *many]))
    query = "?fieldManager=f&force=true" if media == APPLY else ""
    return HostileRequest("PATCH", path + query, media, orjson.dumps(document))
