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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors.kinds.schema.fields import Field, Struct

FOLDER: Final = Path(__file__).parent.parent / "texts"
FOR_ALL: Final = "meta"


@dataclass(frozen=True, slots=True)
class _Texts:
    """Those of one group."""

    said: dict[tuple[str, str], str]  # by type and field; no field: the type itself
    patterns: list[str]  # types that begin with *, the narrower ones first


class Texts:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._groups: dict[str, _Texts] = {}

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """Group, type and field of every text there is."""
        for group in sorted({file.stem.partition("-")[0] for file in self._folder.glob("*.txt")}):
            yield from ((group, type_, field) for type_, field in self._of_group(group).said)

    def of_type(self, struct: Struct) -> str:
        text = self._of_group(_group(struct)).said.get((struct.name, ""), "")
        if not text and struct.name.endswith("List"):
            return f"A list of {struct.name.removesuffix('List')} objects."
        return text

    def of_field(self, struct: Struct, field: Field) -> str:
        own = self._of_group(_group(struct))
        if text := own.said.get((struct.name, field.name)):
            return text
        for texts in (own, self._of_group(FOR_ALL)):
            for pattern in texts.patterns:
                if struct.name.endswith(pattern[1:]) and (text := texts.said.get((pattern, field.name))):
                    return text
        return ""

    def _of_group(self, group: str) -> _Texts:
        """Read when a type of the group is first asked for."""
        if group not in self._groups:
            files = sorted([*self._folder.glob(f"{group}.txt"), *self._folder.glob(f"{group}-*.txt")])
            entries = (entry for file in files for entry in _entries(file.read_text("utf-8")))
            said = {(type_, field): text for type_, field, text in entries}
            patterns = dict.fromkeys(type_ for type_, _ in said if type_.startswith("*"))
            self._groups[group] = _Texts(said, sorted(patterns, key=len, reverse=True))
        return self._groups[group]


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
