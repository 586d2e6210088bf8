"""Reads objects from files of manifests, YAML or JSON, compressed or not."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from rewound.client.errors import Failure
from rewound.gateway.wire import yaml
from rewound.recording.compressed import decompressed

Document = dict[str, Any]

CREATE, UPDATE, STORED = "create", "update", "stored"  # what is known of an object
DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)
_ENDINGS: Final = (".yaml", ".yml", ".json")
_LARGEST: Final = 256 << 20  # bytes of a file of manifests
_MOST_VALUES: Final = 5_000_000  # of one document
_BETWEEN: Final = re.compile(rb"^---(?:[ \t]+#.*|[ \t]*)\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Item:
    """An object, with its apiVersion and kind."""

    document: Document
    how: str  # CREATE: a manifest; STORED: the present server has it
    who: str = ""  # wrote it last; empty: not known
    where: str = ""  # the file that it is in
    number: int = 0  # of its document in that file, from 1


class Manifests:
    """The objects in files and folders of YAML or JSON."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}  # files in folders without objects -> why

    def read(self, paths: Iterable[Path]) -> list[Item]:
        """Read all of them. Raises Failure for a file without objects that is named, and OSError."""
        found: list[Item] = []
        for path in paths:
            found += self._folder(path) if path.is_dir() else _objects_in(path)
        return found

    def _folder(self, folder: Path) -> Iterator[Item]:
        """The objects of all files in a folder; it may have other files, such as the values of a chart."""
        files = sorted(one for one in folder.rglob("*") if one.suffix in _ENDINGS and one.is_file())
        if not files:
            raise Failure(f"--file: {folder} has no files that end in {', '.join(_ENDINGS)}; name another")
        for file in files:
            try:
                yield from _objects_in(file)
            except Failure as error:
                self.left_out[str(file)] = str(error).removeprefix("--file: ")


def _objects_in(file: Path) -> list[Item]:
    with file.open("rb") as raw:
        try:
            text = decompressed(raw).read(_LARGEST + 1)
        except DAMAGED as error:
            raise Failure(f"--file: {file}: {error}") from error
    if len(text) > _LARGEST:
        raise Failure(f"--file: {file} has more than {_LARGEST >> 20} MiB; divide it")
    items = [
        Item(document, CREATE, where=str(file), number=number)
        for number, loaded in enumerate(_documents(file, text), 1)
        for document in _unpacked(file, loaded)
    ]
    if not items:
        raise Failure(f"--file: {file} has no object; name a file with manifests, or a recording")
    return items


def _documents(file: Path, text: bytes) -> Iterator[Any]:
    """The values of a file: one of JSON, or several documents of YAML."""
    if text.lstrip()[:1] in (b"{", b"["):
        try:
            yield orjson.loads(text)
            return
        except orjson.JSONDecodeError:
            pass  # YAML may begin like this too
    line = 1
    for part in _BETWEEN.split(text):
        try:
            yield yaml.load(part, _MOST_VALUES).value
        except yaml.YamlError as error:
            raise Failure(
                f"--file: {file}: the document at line {line} is no YAML: {error}; correct it, or render the "
                "template first"
            ) from error
        line += part.count(b"\n")


def _unpacked(file: Path, value: Any) -> Iterator[Document]:
    """The objects in a value: itself, or the items of a List."""
    if value is None:
        return
    if isinstance(value, list):
        for one in value:
            yield from _unpacked(file, one)
        return
    if not isinstance(value, dict) or not all(
        isinstance(value.get(one), str) for one in ("apiVersion", "kind")
    ):
        raise Failure(f"--file: {file}: a document has no apiVersion and kind; is it a manifest?")
    items = value.get("items")
    if value["kind"].endswith("List") and isinstance(items, list):
        kind = value["kind"].removesuffix("List")
        for one in items:
            # Items of a list of one kind may omit their type.
            typed = {"apiVersion": value["apiVersion"], "kind": kind, **one} if isinstance(one, dict) else one
            yield from _unpacked(file, typed)
        return
    yield value
