"""What a watcher or lister requests, and which objects match, decided without the server's selectors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from tests.robustness.objects import KINDS, NAMESPACES, Document, Key

Predicate = Callable[[Key, Document], bool]


def _label(body: Document, name: str) -> str | None:
    value: str | None = body["metadata"].get("labels", {}).get(name)
    return value


LABELS: dict[str, Predicate] = {
    "": lambda key, body: True,
    "color=red": lambda key, body: _label(body, "color") == "red",
    "color!=red": lambda key, body: _label(body, "color") != "red",
    "color in (blue)": lambda key, body: _label(body, "color") == "blue",
    "mood": lambda key, body: _label(body, "mood") is not None,
    "!mood,color=red": lambda key, body: _label(body, "mood") is None and _label(body, "color") == "red",
}
FIELDS: dict[str, Predicate] = {
    "": lambda key, body: True,
    "metadata.name=r1": lambda key, body: key.name == "r1",
    "metadata.name!=r1": lambda key, body: key.name != "r1",
}


@dataclass(frozen=True, slots=True)
class Interest:
    plural: str
    namespace: str | None = None  # None: all namespaces
    name: str = ""  # one object, by its path
    labels: str = ""
    fields: str = ""

    def matches(self, key: Key, body: Document) -> bool:
        return (
            key.plural == self.plural
            and self.namespace in (None, key.namespace)
            and self.name in ("", key.name)
            and LABELS[self.labels](key, body)
            and FIELDS[self.fields](key, body)
        )

    def watching(self, *, old_path: bool, **query: object) -> str:
        """The path of a watch; `old_path`: the deprecated one with /watch/ in it."""
        kind = KINDS[self.plural]
        key = Key(self.plural, self.namespace or "", self.name)
        path = kind.item(key) if self.name else kind.collection(self.namespace)
        if old_path:
            return _with(path.replace(kind.api, f"{kind.api}/watch", 1), self._selectors(), query)
        return _with(path, self._selectors(), {"watch": 1, **query})

    def listing(self) -> str:
        selectors = self._selectors()
        if self.name:
            selectors["fieldSelector"] = f"metadata.name={self.name}"
        return _with(KINDS[self.plural].collection(self.namespace), selectors, {})

    def _selectors(self) -> dict[str, object]:
        return {"labelSelector": self.labels, "fieldSelector": self.fields}

    def __str__(self) -> str:
        where = self.namespace if self.namespace is not None else "all namespaces"
        words = (self.plural, self.name, "of", where, self.labels, self.fields)
        return " ".join(word for word in words if word)


def _with(path: str, *parts: dict[str, object]) -> str:
    pairs = [(name, value) for part in parts for name, value in part.items() if value != ""]
    return path + "?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in pairs)


def random_interest(rng: random.Random) -> Interest:
    """Every shape about as often; most of config maps, which are in two namespaces."""
    plural = rng.choice(("configmaps", "configmaps", *KINDS))
    namespaced = KINDS[plural].namespaced
    namespace = rng.choice((None, None, *NAMESPACES)) if namespaced else None
    match rng.choice(("all", "labels", "labels", "fields", "both", "item")):
        case "labels":
            return Interest(plural, namespace, labels=rng.choice([*LABELS][1:]))
        case "fields":
            return Interest(plural, namespace, fields=rng.choice([*FIELDS][1:]))
        case "both":
            labels, fields = rng.choice([*LABELS][1:]), rng.choice([*FIELDS][1:])
            return Interest(plural, namespace, labels=labels, fields=fields)
        case "item":
            return Interest(
                plural, rng.choice(NAMESPACES) if namespaced else None, name=f"r{rng.randrange(3)}"
            )
        case _:
            return Interest(plural, namespace)
