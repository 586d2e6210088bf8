"""Descriptions of types and fields, read from the files in `texts`: group.txt, group-part.txt.

    PodSpec: What a pod runs, where it may run, and how it ends.
      restartPolicy: Whether a container that ended is started again.
    RBDVolumeSource, RBDPersistentVolumeSource: An image in Ceph.

Entries of `*Condition` describe fields of all types whose names end like that, entries of `*` fields of any type.
Texts of the type's group take precedence over those of `meta`, which apply to all groups. Defaults and allowed values
come from the declarations, and are not repeated in the texts. Files are read on first use, because few servers need
them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewound.actors.kinds.schema.fields import Field, JsonValue, Struct

FOLDER: Final = Path(__file__).parent.parent / "texts"
COMMON_GROUP: Final = "meta"


@dataclass(frozen=True, slots=True)
class _GroupTexts:
    """The texts of one group."""

    texts: dict[tuple[str, str], str]  # by type and field; an empty field is the type itself
    patterns: list[str]  # types that start with *, the longest first


class Texts:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._groups: dict[str, _GroupTexts] = {}

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """Group, type and field of every text."""
        for group in sorted({file.stem.partition("-")[0] for file in self._folder.glob("*.txt")}):
            yield from ((group, type_, field) for type_, field in self._of_group(group).texts)

    def of_type(self, struct: Struct | JsonValue) -> str:
        text = self._of_group(_group(struct)).texts.get((struct.name, ""), "")
        if not text and struct.name.endswith("List"):
            return f"A list of {struct.name.removesuffix('List')} objects."
        return text

    def of_field(self, struct: Struct, field: Field) -> str:
        own = self._of_group(_group(struct))
        if text := own.texts.get((struct.name, without_dialect(field.name))):
            return text
        for group in (own, self._of_group(COMMON_GROUP)):
            for pattern in group.patterns:
                if struct.name.endswith(pattern[1:]) and (text := group.texts.get((pattern, field.name))):
                    return text
        return ""

    def _of_group(self, group: str) -> _GroupTexts:
        """The texts of a group, whose files are read on first use."""
        if group not in self._groups:
            files = sorted([*self._folder.glob(f"{group}.txt"), *self._folder.glob(f"{group}-*.txt")])
            entries = (entry for file in files for entry in _entries(file.read_text("utf-8")))
            texts = {(type_, field): text for type_, field, text in entries}
            patterns = dict.fromkeys(type_ for type_, _ in texts if type_.startswith("*"))
            self._groups[group] = _GroupTexts(texts, sorted(patterns, key=len, reverse=True))
        return self._groups[group]


def without_dialect(name: str) -> str:
    """The name without the dialect, x-list-type for x-cluster-list-type: texts are the same in all dialects."""
    return f"x-{name.split('-', 2)[-1]}" if name.startswith("x-") else name


def _group(struct: Struct | JsonValue) -> str:
    return struct.of.partition(".")[0]


def _entries(content: str) -> Iterator[tuple[str, str, str]]:
    types: list[str] = []
    for line in content.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, text = line.partition(":")
        if not line.startswith(" "):
            types, name = name.split(", "), ""
        for type_ in types:
            if text.strip():
                yield type_, name.strip(), text.strip()
