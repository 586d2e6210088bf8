"""Journals to try policies on, made of manifests or of the objects that a running server has: one create for each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import time_ns
from typing import Any

from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import NAMES, Names
from rewound.actors.versions.features import Release, choose_release
from rewound.actors.versions.version import NEWEST
from rewound.client.errors import print_warning
from rewound.journal.log import Journal
from rewound.recording.manifests import Item
from rewound.recording.policies.trial import TriedRecording
from rewound.recording.query.folder import imported_file
from rewound.recording.query.source import JOURNAL
from rewound.recording.record.changes import Author, Change, change_of
from rewound.recording.record.definitions import established
from rewound.recording.record.kinds import RecordedKind, kind_of
from rewound.recording.record.writer import RecordingWriter

Document = dict[str, Any]
_CREATED = "2000-01-01T00:00:00Z"  # of manifests
_FIRST = ("namespaces", "customresourcedefinitions")  # others need them


class ObjectJournal:
    """A temporary journal with objects that are given as documents."""

    def __init__(self, folder: Path, names: Names, release: Release) -> None:
        self._folder, self._names, self._release = folder, names, release
        self._catalog: Catalog = built_in(names, release)
        self._custom: dict[tuple[str, str], RecordedKind] = {}  # by apiVersion and kind
        self._changes: list[Change] = []
        self.left_out: list[str] = []  # why objects are not in it

    def add(self, item: Item) -> None:
        document = item.document
        kind = self._kind(document)
        metadata = document.get("metadata")
        where = f"{document['kind']} {metadata.get('name') if isinstance(metadata, dict) else ''}".strip()
        if kind is None:
            self.left_out.append(
                f"{where}: {document['apiVersion']} is not served; add its CustomResourceDefinition"
            )
            return
        try:
            if isinstance(metadata, dict):
                _complete(metadata, kind, len(self._changes))
            if kind.definition is not None:
                document = {**document, **kind.definition.schema.decode_object(document).object}
            change = change_of(kind, document, time_ns() // 1000, removed=False, with_secrets=True)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self.left_out.append(f"{where}: it is malformed: {error}")
            return
        if item.who:
            change.author = Author(item.who, "create", "", "", change.arrived)
        change.version = ""  # the order is that of the documents
        self._changes.append(change)

    def declare(self, definition: Document) -> None:
        """Add the kind of a CustomResourceDefinition."""
        spec = definition.get("spec")
        try:
            assert isinstance(spec, dict)
            names, group = spec["names"], spec["group"]
            for version in spec["versions"]:
                place = group, version["name"], names["plural"]
                namespaced = spec["scope"] == "Namespaced"
                found = kind_of(place, names["kind"], namespaced, self._catalog, None)
                if found is not None:
                    self._custom[f"{group}/{version['name']}", names["kind"]] = found
            stored = [one["name"] for one in spec["versions"] if one.get("storage")]
            definition.setdefault("status", established(names, stored, _CREATED))
        except (AssertionError, KeyError, TypeError):
            pass  # `add` says what is wrong with it

    def write(self) -> Path:
        """Write everything that was added; returns the folder of the journal."""
        path = self._folder / "journal"
        journal = Journal.open(path, dialect=self._names.dialect, kubernetes=self._release.record)
        try:
            journal.register_types(self._catalog.stored_types())
            journal.register_types({one.kind.type_name for one in self._changes})
            self._changes.sort(key=lambda one: one.kind.plural not in _FIRST)
            writer = RecordingWriter(journal)
            for change in self._changes:
                writer.add(change)
            writer.flush()
        finally:
            journal.close()
        return path

    def _kind(self, document: Document) -> RecordedKind | None:
        api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
        custom = self._custom.get((api_version, kind))
        if custom is not None:
            return custom
        found = self._catalog.of_kind(api_version, kind)
        if found is None or not found.is_stored:
            return None
        place = found.group, found.version, found.plural
        return kind_of(place, kind, found.namespaced, self._catalog, found)


def _complete(metadata: Document, kind: RecordedKind, number: int) -> None:
    """Add what a server sets."""
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"00000000-0000-0000-0000-{number:012x}")
    metadata.setdefault("creationTimestamp", _CREATED)


@contextmanager
def open_recording(path: Path, *, is_file: bool) -> Iterator[TriedRecording]:
    """Open the journal of a data folder or of a file. Raises JournalError or OSError."""
    with imported_file(path) if is_file else nullcontext(path / JOURNAL) as found:
        recording = TriedRecording.open_folder(found)
        recording.unreadable.report_to(print_warning)
        try:
            yield recording
        finally:
            recording.close()


@contextmanager
def recording_of(items: list[Item], version: str | None) -> Iterator[tuple[TriedRecording, list[str]]]:
    """A temporary recording of objects of a Kubernetes version, the newest if None, and why some are not in it."""
    names, release = NAMES["kubernetes"], choose_release(version or NEWEST)
    with tempfile.TemporaryDirectory(prefix="rewound-") as temporary:
        made = ObjectJournal(Path(temporary), names, release)
        definitions = definition_type(names).partition(".")[2]
        for item in items:
            group = str(item.document.get("apiVersion")).rpartition("/")[0]
            if item.document.get("kind") == "CustomResourceDefinition" and group == definitions:
                made.declare(item.document)
        for item in items:
            made.add(item)
        recording = TriedRecording.open_folder(made.write())
        try:
            yield recording, made.left_out
        finally:
            recording.close()
