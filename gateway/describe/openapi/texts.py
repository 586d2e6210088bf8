"""What descriptions say of types and fields, read from the files in `texts`: group.txt, group-part.txt.

    PodSpec: What a pod runs, where it may run, and how it ends.
      restartPolicy: Whether a container that ended is started again.
    RBDVolumeSource, RBDPersistentVolumeSource: An image in Ceph.

Under `*Condition` stand fields that mean the same in all types whose names end so, under `*` those of any type; a
group's own stand before those of `meta`, which are for all. What a declaration knows (defaults, allowed words) is
added to these texts and never written into them. Beside the declarations they would be in memory from the start
on, for the few who ever ask; so they are read when somebody does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from actors.kinds.schema.fields import Field, Struct

FOLDER: Final = Path(__file__).parent.parent / "texts"
FOR_ALL: Final = "meta"

_Key = tuple[str, str, str]  # group, type, field; no field: the type itself


class Texts:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._said: dict[_Key, str] = {}
        for file in sorted(folder.glob("*.txt")):
            group = file.stem.partition("-")[0]
            for type_, field, text in _entries(file.read_text("utf-8")):
                self._said[group, type_, field] = text

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._said)

    def of_type(self, struct: Struct) -> str:
        text = self._said.get((_group(struct), struct.name, ""), "")
        if not text and struct.name.endswith("List"):
            return f"A list of {struct.name.removesuffix('List')} objects."
        return text

    def of_field(self, struct: Struct, field: Field) -> str:
        group = _group(struct)
        if text := self._said.get((group, struct.name, field.name)):
            return text
        shared = ((home, pattern) for home in (group, FOR_ALL) for pattern in self._patterns.get(home, ()))
        fitting = (self._said.get((*one, field.name)) for one in shared if struct.name.endswith(one[1][1:]))
        return next(filter(None, fitting), "")

    @cached_property
    def _patterns(self) -> dict[str, list[str]]:
        """By group, the narrower ones first."""
        found: dict[str, list[str]] = {}
        for group, type_ in dict.fromkeys((group, type_) for group, type_, _ in self._said):
            if type_.startswith("*"):
                found.setdefault(group, []).append(type_)
        return {group: sorted(patterns, key=len, reverse=True) for group, patterns in found.items()}


def _group(struct: Struct) -> str:
    return struct.of.partition(".")[0]


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    types: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, said = line.partition(":")
        if not line.startswith(" "):
            types, name = name.split(", "), ""
        for type_ in types:
            if said.strip():
                yield type_, name.strip(), said.strip()
