"""What descriptions say of types and fields, read from the files in `texts`, one for each group.

    PodSpec: What a pod runs, where it may run, and how it ends.
      restartPolicy: Whether a container that ended is started again.

Under `*` stand fields that mean the same wherever they occur. What a declaration knows (defaults, allowed words)
is added to these texts and never written into them. Beside the declarations they would be in memory from the
start on, for the few who ever ask; so they are read when somebody does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from actors.kinds.fields import Field, Struct

FOLDER: Final = Path(__file__).parent.parent / "texts"
EVERYWHERE: Final = "*"

_Key = tuple[str, str, str]  # group, type, field; no field: the type itself


class Texts:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._said: dict[_Key, str] = {}
        for file in sorted(folder.glob("*.txt")):
            for type_, field, text in _entries(file.read_text("utf-8")):
                self._said[file.stem, type_, field] = text

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._said)

    def of_type(self, struct: Struct) -> str:
        group, _, name = struct.of.split(".") if struct.of.count(".") == 2 else ("meta", "", struct.name)
        text = self._said.get((group, name, ""), "")
        if not text and name.endswith("List"):
            return f"A list of {name.removesuffix('List')} objects."
        return text

    def of_field(self, struct: Struct, field: Field) -> str:
        group = struct.of.partition(".")[0]
        for key in (
            (group, struct.name, field.name),
            (group, EVERYWHERE, field.name),
            ("meta", EVERYWHERE, field.name),
        ):
            if key in self._said:
                return self._said[key]
        return ""


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    type_ = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, said = line.partition(":")
        if not line.startswith(" "):
            type_ = name
            if said.strip():
                yield type_, "", said.strip()
        else:
            yield type_, name.strip(), said.strip()
