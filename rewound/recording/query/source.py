"""The source of a command: a server, a data folder or a file. All return the same documents and the same errors.

`server_source.ServerSource` uses the API of a server. `folder_source.FolderSource` reads a data folder, also beside a
server that writes to it; a file that was exported or recorded is imported into a temporary folder first.
`cli.journal.opening` chooses by the flags.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewound.actors.names import Names
from rewound.actors.rewind.difference import Change
from rewound.client.errors import Failure, UsageError
from rewound.journal.records import Event
from rewound.recording.query.entries import Document, Entry, Kind, Selection
from rewound.recording.query.moments import Moment

JOURNAL = "journal"  # folder of the journal in a data folder
_NAMES_COMPARED = 2000  # that are compared with a name that was not found


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object, or with an empty name all objects of a kind."""

    kind: Kind
    namespace: str | None  # empty if the kind is cluster-scoped; None: all namespaces
    name: str = ""
    uid: str = ""  # one of the objects that had this name
    labels: str = ""  # a label selector

    @property
    def text(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.kind.type_name} {self.name}{where}"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the whole journal."""

    offset: int
    time: int  # of its newest event, in microseconds; 0 when there is none


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that was created, deleted or changed between two versions of the journal."""

    kind: Kind
    namespace: str
    name: str
    before: int  # 0: did not exist
    after: int
    last: Event  # its last event in between
    changes: list[Change]

    @property
    def sign(self) -> str:
        if not self.before:
            return "+"
        return "~" if self.after else "-"


@dataclass(frozen=True, slots=True)
class TypeStats:
    kind: str
    resource: str
    events: int
    bytes: int | None  # None: a server does not report it
    live: int


@dataclass(frozen=True, slots=True)
class Stats:
    source: str
    dialect: str
    head: int
    floor: int
    oldest: int  # times of events, in microseconds; 0 without one
    newest: int
    rates: dict[str, float]  # events a second
    types: list[TypeStats]
    # For a folder or a file only:
    snapshots: list[tuple[int, int]] | None = None  # offset and rows
    map_bytes: int | None = None
    used_bytes: int | None = None
    file_bytes: int | None = None
    readers: int | None = None


Progress = Callable[[int], object]  # called with the amount done


class Source(ABC):
    place: str  # for errors: "the journal in rewound-data", "the server https://..."
    is_server = False
    namespace = "default"  # default for objects

    @abstractmethod
    def names(self) -> Names:
        """The dialect."""

    @abstractmethod
    def kubernetes(self) -> str:
        """The version of Kubernetes, as the server or the journal names it."""

    # Kinds and names.

    @abstractmethod
    def kind(self, text: str) -> Kind:
        """The kind that a user names. Raises UsageError if there is none."""

    @abstractmethod
    def kinds(self, namespace: str = "") -> list[Kind]:
        """The kinds that may have objects, in a namespace if one is given. Raises Failure if the user sees none."""

    @abstractmethod
    def kind_of(self, type_id: int) -> Kind:
        """The kind of an event's object."""

    @abstractmethod
    def has_namespace(self, name: str) -> bool:
        """Whether it exists or existed, as far as can be known."""

    @abstractmethod
    def namespaces(self) -> list[str]:
        """The namespaces that exist now, as far as they can be read."""

    @abstractmethod
    def objects_named(self, kind: Kind, most: int) -> list[tuple[str, str]]:
        """Namespace and name of objects of a kind, as far as they can be read."""

    def check_namespace(self, name: str | None) -> None:
        """Raises Failure for a namespace that never existed, unless it has wildcards."""
        if not name or set("*?[") & set(name) or self.has_namespace(name):
            return
        known = self.namespaces()
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known[:20]) or 'none'}"
        number = f"; for a number of events write --limit {name}" if name.isdigit() else ""
        raise Failure(f"there is no namespace {name!r} in {self.place}: {hint}{number}")

    def wanted(self, kind: str, name: str, namespace: str, **more: Any) -> Wanted:
        """Parse NAME or NAMESPACE/NAME of one object. Raises UsageError or Failure."""
        found = self.kind(kind)
        before, slash, name = name.rpartition("/")
        if not name or name in (".", "..") or (slash and not before) or "/" in before:
            raise UsageError(f"{before + slash + name!r} is not a name")
        if slash and namespace and namespace != before:
            raise UsageError(
                f"--namespace: {namespace!r} is not the namespace of {before}/{name}; leave one out"
            )
        if set("*?[") & set(before + name):
            raise UsageError(
                f"{before + slash + name!r} is not one object; `rewound log --name` takes wildcards"
            )
        if found.namespaced is False and slash:
            raise UsageError(f"{found.type_name} are cluster-scoped; write the name alone: {name}")
        return Wanted(found, self._place(found, before or namespace), name, **more)

    def all_of(self, kind: str | Kind, namespace: str, *, everywhere: bool, labels: str = "") -> Wanted:
        """All objects of a kind in a namespace, or `everywhere`."""
        found = self.kind(kind) if isinstance(kind, str) else kind
        if found.namespaced is False:
            return Wanted(found, None, labels=labels)
        return Wanted(found, None if everywhere else self._place(found, namespace), labels=labels)

    def _place(self, kind: Kind, namespace: str) -> str:
        if kind.namespaced is False:
            return ""
        self.check_namespace(namespace)
        return namespace or self.namespace

    def selection(self, options: Any) -> Selection:
        """The selection by the flags that several commands share. Raises UsageError or Failure."""
        chosen = tuple(dict.fromkeys(self.kind(text) for text in options.kind))
        namespace: str | None = options.namespace or None
        if chosen and all(kind.namespaced is False for kind in chosen):
            if namespace:
                raise UsageError(f"--namespace: {chosen[0].type_name} are cluster-scoped; leave it out")
            namespace = ""
        self.check_namespace(namespace)
        return Selection(
            chosen,
            namespace,
            options.name,
            show_secrets=options.show_secrets,
            managed_fields=getattr(options, "show_managed_fields", False),
        )

    def never_existed(self, wanted: Wanted) -> Failure:
        """The error for an object that the journal does not know."""
        known = self.objects_named(wanted.kind, _NAMES_COMPARED)
        elsewhere = sorted({namespace for namespace, name in known if name == wanted.name})
        here = [name for namespace, name in known if namespace == wanted.namespace]
        import difflib

        near = difflib.get_close_matches(wanted.name, here, n=1)
        if elsewhere:
            hint = f"there is one in namespace {' and '.join(elsewhere[:3])}: add -n {elsewhere[0]}"
        elif near:
            hint = f"did you mean {near[0]}?"
        else:
            hint = "`rewound log` shows what there is"
        return Failure(f"no version of {wanted.text} is in {self.place}; {hint}")

    # One object.

    @abstractmethod
    def history(
        self, wanted: Wanted, limit: int | None, *, managed_fields: bool = False
    ) -> Iterator[Document]:
        """The versions of an object, newest first, in the form of the API, with changes. Raises Failure."""

    @abstractmethod
    def contents(
        self, wanted: Wanted, ends: tuple[Moment, Moment]
    ) -> tuple[Document | None, Document | None]:
        """The object at two moments; None where it did not exist. Raises Failure if it never did."""

    @abstractmethod
    def blame(self, wanted: Wanted, at: Moment) -> Document: ...

    @abstractmethod
    def rollback(self, wanted: Wanted, to: Moment, fields: list[str], *, dry_run: bool) -> Document:
        """Write an older version; returns the object. For a folder, returns the object that would be written."""

    @abstractmethod
    def undelete(self, wanted: Wanted, *, dry_run: bool) -> Document: ...

    @abstractmethod
    def suspects(self, wanted: Wanted, at: Moment, since: Moment | None) -> Document:
        """What changed before an object broke, ranked. Raises Failure for an object that the journal does not know."""

    # Objects of a moment.

    def refused(self) -> Iterator[Document]:
        """Requests that the recorded server refused; only recordings with an audit log have them."""
        return iter(())

    def gaps(self) -> list[Document]:
        """What a flight recorder missed, with times in microseconds; only its recordings have them."""
        return []

    @abstractmethod
    def version(self, moment: Moment) -> Version:
        """The version of a moment. Raises Failure if it is before the journal's start or after its end."""

    @abstractmethod
    def objects(self, wanted: Wanted, at: Moment) -> Iterator[Document]:
        """Objects at a version, with kind and apiVersion. Raises Failure for one that did not exist."""

    @abstractmethod
    def table(self, wanted: Wanted, at: Moment) -> Iterator[Document]:
        """Objects at a version as one or more Tables with the columns of the kind; ages are those of the moment."""

    # Events.

    @abstractmethod
    def log(
        self,
        selection: Selection,
        since: Moment | None,
        until: Moment | None,
        limit: int | None,
        *,
        reverse: bool,
    ) -> Iterator[Sequence[Entry]]:
        """Selected events, oldest first unless `reverse`; with a limit the newest. Raises Failure or UsageError."""

    @abstractmethod
    def follow(self, selection: Selection, after: int) -> Iterator[Sequence[Entry]]:
        """New events, as they are committed; never ends. Without any it yields nothing now and then."""

    @abstractmethod
    def event(self, offset: int, namespace: str, *, show_secrets: bool) -> Entry:
        """One event. Raises Failure if there is none. `namespace` is that of its object, if given."""

    @abstractmethod
    def differences(
        self, selection: Selection, ends: tuple[int, int], progress: Progress
    ) -> Iterator[Difference]:
        """The objects that changed between two versions, backward if the second is older."""

    @abstractmethod
    def stats(self, progress: Callable[[int, int], object]) -> Stats: ...


def did_not_exist(wanted: Wanted, when: str = "then") -> Failure:
    """The error for an object that existed at another time."""
    verb = "does" if when == "now" else "did"
    history = f"`rewound history {wanted.kind.type_name} {wanted.name}`"
    return Failure(f"{wanted.text} {verb} not exist {when}; {history} shows when it did")
