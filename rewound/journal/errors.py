"""The errors of the journal: one class per cause, each with a text that says what to do next.

Every module of this package raises them; the committer and the reads of `actors` translate them. There are three
families, so that a caller can choose how much to catch: `CannotOpen` (the folder cannot be opened), `CannotStore`
(this write did not happen; reads still work) and `Damaged` (bytes are not what was written).
"""

from __future__ import annotations

from pathlib import Path

# What an operator can do about a damaged folder.
NEXT = (
    "run `rewound journal verify` on the data folder, then restore it from a backup, "
    "or save what is sound with `rewound journal recover`"
)


class JournalError(Exception):
    """Base of all errors of this package."""

    path: Path | None = None  # the folder named in the text

    @property
    def public(self) -> str:
        """The text without the path of the folder, for clients of the API."""
        return str(self) if self.path is None else str(self).replace(f" in {self.path}", "")


class CannotOpen(JournalError):
    """The folder cannot be opened; nothing in it has been changed."""


class NoJournal(CannotOpen):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"there is no journal in {path}: start the server once with this data folder, or name another"
        )


class NotAJournal(CannotOpen):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} holds no readable journal ({why}): restore the folder from a backup, or name another"
        )


class IncompleteFolder(CannotOpen):
    """A file, a database or a record that every journal has is missing."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the journal in {path} is incomplete ({why}): {NEXT}")


class LostCommits(CannotOpen):
    """Commits that were durable are gone: the journal is older than its identity file says."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the newest commits of the journal in {path} are lost ({why}): {NEXT}")


class WrongIdentity(CannotOpen):
    """The identity file and the databases belong to different clusters."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the files in {path} do not belong together ({why}): "
            "restore all files of the folder from the same backup"
        )


class AlreadyOpen(CannotOpen):
    """Another process writes the journal."""

    def __init__(self, path: Path, holder: str) -> None:
        who = f"process {holder}" if holder else "another process"
        super().__init__(
            f"the journal in {path} is already being written by {who}: "
            "stop that server first, or use another data folder"
        )


class StandbyFolder(CannotOpen):
    """The folder belongs to a standby; writing to it directly would make its history diverge from its leader's."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the journal in {path} is that of a standby: serve it with --follow and the URL of its leader, or, if "
            "that leader is gone for good, give it its own history with `rewound promote` and the data folder"
        )


class JournalExists(CannotOpen):
    """The target of an import already has a journal; an import never changes an existing one."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} already has a journal: import into another data folder")


class WrongDialect(CannotOpen):
    def __init__(self, path: Path, stored: str, asked: str) -> None:
        self.stored, self.asked = stored, asked
        super().__init__(
            f"the journal in {path} was created with the dialect {stored!r} and cannot serve {asked!r}: "
            f"start with --dialect {stored}, or use another data folder"
        )


class NewerKubernetes(CannotOpen):
    def __init__(self, path: Path, stored: str, asked: str) -> None:
        super().__init__(
            f"the journal in {path} has objects of Kubernetes {stored}, which {asked} cannot read: start with "
            f"--kubernetes-version {stored} or later, or without the flag, or use another data folder"
        )


class NewerLayout(CannotOpen):
    """A newer release wrote the journal, with a layout that this one cannot read."""

    def __init__(self, what: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"{what} has layout {found} and this release reads up to {known}: "
            "use the newer release that wrote it, or one after it"
        )


class Damaged(JournalError):
    """A record is not what was written. Such a record is never returned."""

    def __init__(self, what: str, path: Path | None = None) -> None:
        self.what, self.path = what, path
        super().__init__(f"{what}: {NEXT}")


class Unreadable(Damaged):
    """The contents of an event are what was written, but no server can have written them: they are too large, or cannot
    be decompressed. It says nothing of other records, so writes go on.
    """


class DamagedTail(CannotOpen, Damaged):
    """The newest records, which every opening checks, are damaged or inconsistent."""

    def __init__(self, path: Path, offset: int, why: str) -> None:
        self.offset = offset
        Damaged.__init__(self, f"the journal in {path} is damaged at offset {offset} ({why})")


class DamagedMetaPage(CannotOpen, Damaged):
    """LMDB's meta pages, which name the roots of everything else, are not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        Damaged.__init__(self, f"the file in {path} is damaged ({why})")


class DamagedStructure(CannotOpen, Damaged):
    """Pages of the LMDB file are not what was written."""

    def __init__(self, path: Path, first: str, count: int) -> None:
        more = f", and {count - 1} more" if count > 1 else ""
        Damaged.__init__(self, f"the file in {path} is damaged ({first}{more})")


class DamagedFile(JournalError):
    """An export file is not what was written. Nothing was imported from it."""

    def __init__(self, position: int, why: str) -> None:
        self.position = position
        super().__init__(
            f"the file is damaged at byte {position} ({why}): copy it again, or export the journal once more"
        )


class CannotRecover(JournalError):
    """Nothing that could be served can be recovered from a damaged folder."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"the journal in {path} cannot be recovered ({why}): restore it from a backup")


class CannotStore(JournalError):
    """The write failed: nothing of it is visible, and reads still work."""


class NotWritable(CannotStore):
    def __init__(self, path: Path) -> None:
        super().__init__(f"the journal in {path} is being replayed and cannot be written")
        self.path = path


class StorageFull(CannotStore):
    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"no room for the journal in {path} ({why}): free some space there, then try again")


class StorageFailed(CannotStore):
    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(
            f"writing the journal in {path} failed ({why}): check the disk, then restart the server"
        )


class WritesStopped(StorageFailed):
    """The files are no longer those that this process opened, or another process writes them."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        CannotStore.__init__(
            self,
            f"the journal in {path} is not written any more ({why}): "
            "make sure that only one server uses the folder, check it with `rewound journal verify`, "
            "then restart the server",
        )


class CannotGrow(CannotStore):
    """The process may not map a larger file."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        super().__init__(
            f"the journal in {path} needs {size} bytes of address space, which this process may not have: "
            "raise its limit (ulimit -v, RLIMIT_AS), then restart the server"
        )


class CannotRead(JournalError):
    """LMDB cannot begin a read transaction."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"the journal in {path} cannot be read ({why}): restart the server")


class NameTooLong(CannotStore):
    """Namespace and name together are too long for a key."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"namespace and name together have {size} bytes; the journal takes at most {limit}")


class BadName(CannotStore):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"the journal cannot store the name {name!r}: it contains a NUL character or is not valid text"
        )


class EventTooLarge(CannotStore):
    """The event has more bytes than may be read again."""

    def __init__(self, what: str, size: int) -> None:
        self.size = size
        super().__init__(f"{what} has {size:,} bytes, and the journal takes no event of this size")


class TooManyTypes(CannotStore):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the journal has reached its limit of {limit} resource types")


class CannotFollow(JournalError):
    """A standby or a backup can no longer follow a server, and retrying does not help."""


class LeaderChanged(CannotFollow):
    """The leader stores kinds that a running standby serves as empty, or another version: the standby starts again."""


class Diverged(CannotFollow):
    """The local history and that of the server have diverged."""


class Compacted(JournalError):
    """The version is below the retention floor: its events were removed."""

    def __init__(self, asked: int, floor: int) -> None:
        self.asked, self.floor = asked, floor
        super().__init__(f"version {asked} is older than what the journal keeps; the oldest one is {floor}")


class FutureVersion(JournalError):
    """The version is newer than the newest one in the journal."""

    def __init__(self, asked: int, head: int) -> None:
        self.asked, self.head = asked, head
        super().__init__(f"version {asked} is ahead of the journal, which is at {head}")
