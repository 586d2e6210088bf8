"""Goes through the versions of an object in order, and keeps the owners of its fields.

Most writes change a few fields of an object, often the same ones as the writes before. The bytes of everything else are
those of the version before, so only the fields that changed before are parsed (`body_template`). A version that changed
others is parsed and compared as a whole, and from then on these fields are parsed too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from actors.rewind.body_template import BodyTemplate, Path, body_template
from actors.rewind.owners import Owners, owners_after, unchanged
from journal.records import Event

# They change with every write, and say themselves who wrote them.
_IGNORED: Final = ("managedFields", "resourceVersion")
_METADATA: Final = "metadata"

# More are replaced by those of whole parts of the object: its status, a part of its metadata.
MAX_PLACEHOLDERS: Final = 16
# A template costs about as much as it saves in some versions. Each version adds one to what may be spent.
TEMPLATE_COST: Final = 4
MAX_CREDIT: Final = 64


class _Placeholder:
    """A field that is parsed of each version."""

    __slots__ = ("_key", "_owners", "_parent", "text")

    def __init__(self, text: bytes, key: str, parent: dict[str, Any], owners: dict[str, Owners]) -> None:
        self.text = text
        self._key, self._parent, self._owners = key, parent, owners

    def set(self, text: bytes, value: Any, version: int) -> None:
        self.text = text
        key = self._key
        before, self._parent[key] = self._parent[key], value
        if not unchanged(before, value):
            self._owners[key] = owners_after(before, self._owners[key], value, version)


class OwnerWalk:
    """The object and its owners after the versions so far."""

    def __init__(self) -> None:
        self.object: Any = None  # without what is ignored
        self.owners: Owners = 0
        self._template: BodyTemplate | None = None
        self._placeholders: list[_Placeholder] = []
        self._changing: list[Path] = []  # fields that have changed
        self._credit = MAX_CREDIT

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._template is None or not self._fill(self._template, event):
                self._compare(event)
            self._credit = min(self._credit + 1, MAX_CREDIT)

    def _fill(self, template: BodyTemplate, event: Event) -> bool:
        """Take over the values of the placeholders; whether nothing else changed."""
        texts = template.texts(event.body)
        if texts is None:
            return False
        changed = [
            (placeholder, text)
            for placeholder, text in zip(self._placeholders, texts, strict=True)
            if text != placeholder.text
        ]
        try:
            values = [orjson.loads(text) for _, text in changed]
        except orjson.JSONDecodeError:
            return False
        for (placeholder, text), value in zip(changed, values, strict=True):
            placeholder.set(text, value, event.offset)
        return True

    def _compare(self, event: Event) -> None:
        """Parse the whole version."""
        document = orjson.loads(event.body)
        ignored = {name: document[_METADATA].pop(name) for name in _IGNORED if name in document[_METADATA]}
        changed: list[Path] = []
        if self.object is None:
            self.owners = event.offset
        else:
            self.owners = owners_after(self.object, self.owners, document, event.offset)
            changed = changed_paths(self.object, document)
        self.object = document
        self._template = None
        if self._credit >= TEMPLATE_COST:
            self._credit -= TEMPLATE_COST
            self._make_template(event.body, ignored, changed)

    def _make_template(self, body: bytes, ignored: dict[str, Any], changed: list[Path]) -> None:
        there = [path for path in self._changing if self._has(path)]
        self._changing = outermost([*there, *changed])
        if len(self._changing) > MAX_PLACEHOLDERS:
            self._changing = outermost(path[: 2 if path[0] == _METADATA else 1] for path in self._changing)
        if len(self._changing) > 2 * MAX_PLACEHOLDERS:
            self._changing = []
            return
        template = body_template(body, [*((_METADATA, name) for name in ignored), *self._changing])
        texts = None if template is None else template.texts(body)
        if template is None or texts is None:
            return
        self._template = template
        self._placeholders = [
            self._placeholder(path, text, ignored) for path, text in zip(template.paths, texts, strict=True)
        ]

    def _has(self, path: Path) -> bool:
        value = self.object
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return True

    def _placeholder(self, path: Path, text: bytes, ignored: dict[str, Any]) -> _Placeholder:
        key = path[-1]
        if len(path) == 2 and path[0] == _METADATA and key in ignored:
            return _Placeholder(text, key, ignored, {key: 0})
        if isinstance(self.owners, int):
            self.owners = dict.fromkeys(self.object, self.owners)
        value, owners = self.object, self.owners
        for step in path[:-1]:
            value, outer = value[step], owners
            owners = outer[step]
            if isinstance(owners, int):
                owners = outer[step] = dict.fromkeys(value, owners)
        return _Placeholder(text, key, value, owners)


def changed_paths(before: dict[str, Any], after: dict[str, Any]) -> list[Path]:
    """The paths of what a version changed: as far inside as objects have the same keys as before."""
    found: list[Path] = []
    left: list[tuple[Path, dict[str, Any], dict[str, Any]]] = [((), before, after)]
    while left:
        path, one, other = left.pop()
        if path and path != (_METADATA,) and one.keys() != other.keys():
            found.append(path)
            continue
        for key, value in other.items():
            old = one.get(key)
            if key in one and unchanged(old, value):
                continue
            if isinstance(old, dict) and isinstance(value, dict):
                left.append(((*path, key), old, value))
            else:
                found.append((*path, key))
    return found


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that are not below another one of them."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not found or path[: len(found[-1])] != found[-1]:
            found.append(path)
    return found
