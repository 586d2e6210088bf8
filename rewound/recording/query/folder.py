"""Opens the journal of a folder or a file read-only, also beside a live server; finds its kinds, and masks Secrets.

Users name kinds as they do for a server. The catalog of the folder's dialect has most of them, and the journal has
the definitions of custom kinds. A type that neither declares (of a newer release, or of a deleted definition) is
shown with the name that it has in the journal.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rewound.actors.names import NAMES, Names
from rewound.actors.versions.version import nearest_version, stored_version
from rewound.client.errors import UsageError, print_warning
from rewound.journal.log import Journal
from rewound.recording.compressed import decompressed
from rewound.recording.progress import Progress
from rewound.recording.query.entries import Kind, near_kind
from rewound.recording.query.kind_names import KindNames, built_in_names, custom_names, definition_type
from rewound.recording.query.source import JOURNAL

if TYPE_CHECKING:
    from rewound.actors.kinds.declaration.definition import Definition


@dataclass(frozen=True, slots=True)
class Folder:
    journal: Journal
    kinds: Kinds
    path: Path  # as it was given
    temporary: bool = False  # the journal was imported from a file


@contextmanager
def open_folder(data_dir: Path) -> Iterator[Folder]:
    journal = Journal.open(data_dir / JOURNAL, readonly=True)
    journal.unreadable.report_to(print_warning)
    try:
        yield Folder(journal, Kinds(journal), data_dir)
    finally:
        journal.close()


@contextmanager
def open_file(file: Path) -> Iterator[Folder]:
    """Open the journal in a file. Raises JournalError or OSError."""
    with imported_file(file) as path:
        journal = Journal.open(path, readonly=True)
        journal.unreadable.report_to(print_warning)
        try:
            yield Folder(journal, Kinds(journal), file, temporary=True)
        finally:
            journal.close()


@contextmanager
def imported_file(file: Path) -> Iterator[Path]:
    """Import the journal in a file into a temporary folder. Raises JournalError or OSError."""
    from rewound.journal import backup
    from rewound.journal.transfer import restore

    if file.is_dir():
        raise UsageError(f"--file: {file} is a folder; name a data folder with --data-dir")
    with tempfile.TemporaryDirectory(prefix="rewound-") as temporary:
        path = Path(temporary) / JOURNAL
        with file.open("rb") as stream, Progress(f"reading {file}") as progress:
            if stream.peek(len(backup.MAGIC)).startswith(backup.MAGIC):
                backup.restore_backup(file, path, progress=progress)
            else:
                restore(decompressed(stream), path, progress)
        yield path


logger = logging.getLogger(__name__)


class Kinds:
    """The kinds of a journal. Those that commands only name are known without their declarations."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._named: dict[str, KindNames] = {}
        if journal.dialect in NAMES:
            version = nearest_version(stored_version(journal.kubernetes))
            built_in, custom = built_in_names(journal.dialect, version), custom_names(journal)
            self._named = {one.type_name: one for one in (*built_in, *custom)}
        self._by_type_id: dict[int, Kind] = {}

    @cached_property
    def _definitions(self) -> tuple[Definition, ...]:
        """The declarations, which take a while to import."""
        if self._journal.dialect not in NAMES:
            return ()
        from rewound.actors.kinds.built_in import built_in
        from rewound.actors.versions.features import release_of

        names = NAMES[self._journal.dialect]
        declared = built_in(names, release_of(self._journal.kubernetes)).declared
        return (*declared, *_custom(self._journal, names))

    def find(self, text: str) -> Kind:
        """The kind with this name. Raises UsageError if there is none, or several."""
        found = {one.type_name for one in self._named.values() if text.lower() in one.accepted}
        found |= {name for name in self._journal.types() if text.lower() in (name, name.partition(".")[0])}
        if text.lower() in found:
            found = {text.lower()}  # the full name of a type wins, even if other groups have the same plural
        if len(found) == 1:
            return self._of(found.pop())
        if found:
            raise UsageError(f"{text!r} may be {' or '.join(sorted(found))}; write one of them")
        raise UsageError(f"{text!r} is not a kind of this journal; {self._suggestion(text)}")

    def definition(self, kind: Kind) -> Definition | None:
        """None for a type that neither this release nor the journal declares."""
        stored = [one for one in self._definitions if not one.storage.stored_as]
        return next((one for one in reversed(stored) if one.type_name == kind.type_name), None)

    def of_kind(self, api_version: str, kind: str) -> Definition | None:
        return next(
            (one for one in self._definitions if (one.api_version, one.kind) == (api_version, kind)), None
        )

    def type_id(self, kind: Kind) -> int:
        """Its type id in the journal; 0 when it has none yet."""
        return self._journal.type_id(kind.type_name)

    def of_type_id(self, type_id: int) -> Kind:
        if type_id not in self._by_type_id:
            for name, number in self._journal.types().items():
                self._by_type_id[number] = self._of(name)
        return self._by_type_id.get(type_id) or Kind(f"type {type_id}", f"type {type_id}", "", None)

    def all(self) -> list[Kind]:
        """The kinds of this journal, by name."""
        return [self._of(name) for name in sorted(self._journal.types())]

    def _of(self, type_name: str) -> Kind:
        found = self._named.get(type_name)
        if found is None:
            return Kind(type_name, type_name, "", None)
        return Kind(found.type_name, found.kind, found.api_version, found.namespaced)

    def _suggestion(self, text: str) -> str:
        known = {name for one in self._named.values() for name in one.accepted}
        plurals = {one.accepted[0] for one in self._named.values()}
        return near_kind(text, known | {*self._journal.types()}, plurals)


def _custom(journal: Journal, names: Names) -> Iterator[Definition]:
    """Definitions of the current custom kinds. A definition that cannot be read is left out."""
    from rewound.actors.kinds.custom import definitions_of, parsed

    type_id = journal.type_id(definition_type(names))
    with journal.read() as view:
        for _, _, row in view.rows(type_id, "") if type_id else ():
            try:
                yield from definitions_of(parsed(row.body), row.body, 0, names).definitions
            except Exception:
                logger.debug("a custom resource definition cannot be read", exc_info=True)


class Masking:
    """Masks the values of Secrets: commands print them only with --show-secrets.

    Values of `data` and `stringData` become `***`, and so do annotations that may hold them, because `kubectl
    apply` and other tools keep the whole manifest in one. Two versions are masked together, so that a
    comparison still shows which values changed.

    Which types of a journal are masked: none with `show_secrets`.
    """

    def __init__(self, kinds: Kinds, *, show_secrets: bool) -> None:
        self._kinds, self._show_secrets = kinds, show_secrets

    def applies(self, type_id: int) -> bool:
        return not self._show_secrets and self._kinds.of_type_id(type_id).is_secret
