"""The names of kinds, without their declarations: a command that only names kinds need not import all of them.

`kind_names.txt` has a line for each kind of this release: the dialect, the first and the last version of Kubernetes
that has it so, its type, kind, stored apiVersion and scope, and the names that users give. `python -m
rewound.recording.query.kind_names` prints it; a test compares it with the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rewound.actors.names import CLUSTER, NAMES, Names
from rewound.actors.versions.version import VERSIONS

if TYPE_CHECKING:
    from rewound.actors.kinds.declaration.definition import Definition
    from rewound.journal.log import Journal

FILE = Path(__file__).with_name("kind_names.txt")


@dataclass(frozen=True, slots=True)
class KindNames:
    """A kind as commands name it."""

    type_name: str  # configmaps, leases.coordination.<domain>
    kind: str
    api_version: str  # of stored objects
    namespaced: bool
    accepted: tuple[str, ...]  # in lower case; the first is the plural


def built_in_names(dialect: str, version: str) -> Iterator[KindNames]:
    """The kinds of a dialect in a version of Kubernetes."""
    for line in FILE.read_text().splitlines():
        of, first, last, type_name, kind, api_version, scope, accepted = line.split(" ")
        if of == dialect and VERSIONS.index(first) <= VERSIONS.index(version) <= VERSIONS.index(last):
            yield KindNames(type_name, kind, api_version, scope == "namespaced", tuple(accepted.split(",")))


def definition_type(names: Names) -> str:
    """The type of CustomResourceDefinitions in a journal, as `kinds.apiextensions` declares it."""
    return f"customresourcedefinitions.{names.group('apiextensions')}"


def custom_names(journal: Journal) -> Iterator[KindNames]:
    """The custom kinds that a journal defines now; a definition that cannot be read is left out."""
    type_id = journal.type_id(definition_type(NAMES[journal.dialect]))
    with journal.read() as view:
        for _, _, row in view.rows(type_id, "") if type_id else ():
            try:
                yield _custom(orjson.loads(row.body))
            except (ValueError, KeyError, TypeError, StopIteration):
                continue


def _custom(stored: dict[str, Any]) -> KindNames:
    spec, names = stored["spec"], stored["status"]["acceptedNames"]
    group, plural = spec["group"], names["plural"]
    storage = next(one["name"] for one in spec["versions"] if one["storage"])
    versions = [one["name"] for one in spec["versions"] if one["served"] or one["storage"]]
    given = [names["kind"].lower(), names.get("singular", ""), *names.get("shortNames", ())]
    accepted = [plural, *given, f"{plural}.{group}", *(f"{plural}.{one}.{group}" for one in versions)]
    return KindNames(
        f"{plural}.{group}",
        names["kind"],
        f"{group}/{storage}",
        spec["scope"] == "Namespaced",
        tuple(dict.fromkeys(filter(None, accepted))),
    )


def names_of(definitions: list[Definition]) -> KindNames:
    """The names of one type, of the definitions of its versions."""
    stored = next((one for one in definitions if not one.storage.stored_as), definitions[0])
    accepted = {stored.plural: None}
    for one in definitions:
        accepted |= dict.fromkeys((one.kind.lower(), one.names.singular, *one.names.short_names))
        if one.group:
            accepted |= dict.fromkeys(
                (f"{one.plural}.{one.group}", f"{one.plural}.{one.version}.{one.group}")
            )
    return KindNames(
        stored.type_name, stored.kind, stored.api_version, stored.namespaced, tuple(filter(None, accepted))
    )


def lines() -> Iterator[str]:
    """The lines of the file, by the declarations."""
    from rewound.actors.kinds.built_in import built_in
    from rewound.actors.versions.features import release_of

    spans: dict[tuple[str, KindNames], list[str]] = {}
    for dialect, names in NAMES.items():
        for version in VERSIONS[:1] if names is CLUSTER else VERSIONS:
            types: dict[str, list[Definition]] = {}
            for one in built_in(names, release_of(version)).declared:
                types.setdefault(one.type_name, []).append(one)
            for definitions in types.values():
                spans.setdefault((dialect, names_of(definitions)), []).append(version)
    for (dialect, found), versions in spans.items():
        last = VERSIONS[-1] if dialect == CLUSTER.dialect else versions[-1]
        scope = "namespaced" if found.namespaced else "cluster"
        named = (found.type_name, found.kind, found.api_version, scope, ",".join(found.accepted))
        yield " ".join((dialect, versions[0], last, *named))


if __name__ == "__main__":
    print("\n".join(lines()))
