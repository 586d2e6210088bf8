"""The current object of each name, and the preconditions that commands have for it: a uid, a resourceVersion.

The current object is that of the newest proposal, while that is not durable, or else of the journal.
"""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

from rewound.actors.errors import STALE, BadRequest, Cause, Conflict, Invalid, NotANumber, Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.stored_form import mended, misfit
from rewound.actors.messages import DeleteOptions, Object, Replace, Submit
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.time_limit import NeedsThread, need_thread
from rewound.actors.store.proposal import Proposal
from rewound.actors.versions.features import JSON_IN_TEXTS
from rewound.journal.log import Journal
from rewound.journal.records import Row
from rewound.journal.view import View

Key = tuple[str, str]  # namespace and name

_LARGEST_VERSION = str(2**64 - 1)
_LATEST = 2**63  # an offset after all others
_UNCOMMITTED = "not committed yet"

# How a stored object is read, each if the one before fails: as it is; without what does not have the form of its kind;
# without all but its metadata. `stored_form` says which objects need that.
AS_STORED, MENDED, ONLY_METADATA = 0, 1, 2


class Current(msgspec.Struct, frozen=True):
    """The current object and the offset of the event that wrote it.

    Until that event is committed, the offset is unknown, and 0 here: no client can name it yet.
    """

    offset: int
    object: Object
    proposal: Proposal | None = None  # of the event, while it is not committed
    # Of a custom kind: the version that the stored object is in, and that object if `object` is in another one.
    api_version: str = ""
    stored: Object | None = None
    is_mended: bool = False  # the stored object does not have the form of its kind: `object` is what fits

    @property
    def version(self) -> str | None:
        """The resourceVersion; None while the last write is not committed."""
        return None if self.proposal is not None else str(self.offset)

    @property
    def written(self) -> int | Proposal:
        """The event that wrote the object: its offset, or its proposal while it is not committed."""
        return self.offset if self.proposal is None else self.proposal


class CurrentObjects:
    """The current objects of one resource type, decoded by its present definitions."""

    def __init__(
        self, journal: Journal, type_id: int, pending: dict[Key, Proposal], storage: Definition
    ) -> None:
        """`pending` has the last proposal of each object; those in it now were decided with earlier definitions."""
        self._journal = journal
        self._type_id = type_id
        self._pending = pending
        self._storage = storage
        self._versions = storage.storage.versions
        self._outdated = frozenset(pending.values())

    def find(
        self, view: View | None, namespace: str, name: str, form: int = AS_STORED, *, in_thread: bool
    ) -> Current | None:
        """Raises NeedsThread if the object is large, or was stored under a schema that must be compiled first.

        Without a view it reads in a transaction of its own. In a thread it is important that it reads `_pending` first:
        what a commit has removed from it is in the journal.
        """
        pending = self._pending.get((namespace, name))
        if pending is not None:
            if len(pending.body) > LARGE_BYTES and not in_thread:
                raise NeedsThread
            return None if pending.removed else self._of_proposal(pending)
        row = self._row(view, namespace, name)
        if row is None:
            return None
        if len(row.body) > LARGE_BYTES and not in_thread:
            raise NeedsThread
        if form != AS_STORED:
            return self._mended(row, namespace, name, form)
        current = self._parsed(row.body, row.offset, row.offset)
        metadata = current.object["metadata"]
        # An event with the names in the object would change another object.
        if metadata.get("name") != name or metadata.get("namespace", "") != namespace:
            return self._mended(row, namespace, name, MENDED)
        return current

    def misfit(self, namespace: str, name: str) -> str:
        """Why the stored object does not have the form of its kind; empty if it has, or there is none."""
        row = self._row(None, namespace, name)
        return "" if row is None else misfit(self._storage, namespace, name, bytes(row.body))

    def _mended(self, row: Row, namespace: str, name: str, form: int) -> Current:
        """An object of another form than its kind has, as far as it can be read."""
        found = mended(self._storage, namespace, name, bytes(row.body), empty=form == ONLY_METADATA)
        found["metadata"].pop("resourceVersion", None)
        if self._versions is None:
            return Current(row.offset, found, is_mended=True)
        version = found.pop("apiVersion", None)
        version = version if version in self._versions else self._versions.storage
        return Current(row.offset, found, None, version, is_mended=True)

    def _row(self, view: View | None, namespace: str, name: str) -> Row | None:
        if view is not None:
            return view.get(self._type_id, namespace, name)
        with self._journal.read() as own:
            return own.get(self._type_id, namespace, name)

    def is_written_by(self, written: int | Proposal, namespace: str, name: str) -> bool:
        """Whether this event is still the one that wrote the current object; 0 means that there is no object."""
        now: int | Proposal = 0
        if (pending := self._pending.get((namespace, name))) is not None:
            now = 0 if pending.removed else pending
        elif (row := self._row(None, namespace, name)) is not None:
            now = row.offset
        if now is written or isinstance(written, int):
            return now == written
        # It was a proposal. If it has been committed since, its offset is known.
        return written.event is not None and now == written.event.offset

    def _of_proposal(self, pending: Proposal) -> Current:
        return self._parsed(pending.body, 0, -1 if pending in self._outdated else _LATEST, pending)

    def _parsed(self, body: bytes, offset: int, since: int, proposal: Proposal | None = None) -> Current:
        """`since`: the offset that decides whether it is older than the schema of a custom kind."""
        parsed: Object = orjson.loads(body)
        parsed["metadata"].pop("resourceVersion", None)
        if self._versions is None:
            return Current(offset, parsed, proposal)
        version = parsed.pop("apiVersion", self._versions.storage)
        if not self._versions.is_current(version, since):
            if not self._versions.is_loaded(version):
                need_thread()
            parsed = self._versions.upgrade(parsed, version)
        return Current(offset, parsed, proposal, version)


# Preconditions. `name` is that of the command.


def version_number(text: str) -> int | None:
    """A resourceVersion as a number of 64 bits, maybe with leading zeros. None for any other text."""
    digits = text.lstrip("0")
    if not text or len(digits) > len(_LARGEST_VERSION) or not (text.isascii() and text.isdecimal()):
        return None
    number = int(digits or "0")
    return number if number < 2**64 else None


def refuse_version(metadata: Object) -> None:
    """Raise BadRequest if an object to be created has a version. Text that is not a version is dropped, as in v1.25."""
    if version_number(metadata.pop("resourceVersion", "")):
        raise BadRequest("resourceVersion should not be set on objects to be created")


def check_sent_version(definition: Definition, metadata: Object) -> None:
    """Raise an error if the resourceVersion of an update or apply that may create is not a version."""
    text = metadata.get("resourceVersion") or ""
    if text and version_number(text) is None:
        raise _not_a_version(definition, text)


def check_version(definition: Definition, name: str, version: str, current: Current) -> None:
    """Raise Conflict if an update has another version than the current object, Invalid if it must have one."""
    if version and version == current.version:
        return
    number = version_number(version) if version else 0
    if number == 0:
        if definition.strategy.allow_unconditional_update:
            return
        shown = "0" if JSON_IN_TEXTS in definition.features else "0x0"
        text = f"Invalid value: {shown}: must be specified for an update"
        cause = Cause("FieldValueInvalid", text, "metadata.resourceVersion")
        raise Invalid(definition.group, definition.plural, name, [cause])
    if number is None:
        raise _not_a_version(definition, version)
    if current.proposal is not None or number != current.offset:
        raise Conflict(definition.resource, name, STALE)


def check_unchanged_version(definition: Definition, current: Current, command: Replace) -> None:
    """Raise Conflict if a command that has a version is decided again because the object has changed."""
    version = version_number(command.object["metadata"].get("resourceVersion") or "")
    if version and (current.proposal is not None or version != current.offset):
        raise Conflict(definition.resource, command.name, STALE)


def check_version_precondition(
    definition: Definition, name: str, version: str | None, actual: str | None
) -> None:
    """`actual` is None while the last write of the object is not committed: no client can name its version yet."""
    if version is not None and version != actual:
        meta = actual or _UNCOMMITTED
        why = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {meta}"
        raise Conflict(definition.resource, name, f"Precondition failed: {why}")


def check_uid(
    definition: Definition, command: Replace | Submit, uid: str | None, current: Current | None
) -> None:
    """Raise Conflict if a sent object has the uid of another object of that name.

    A patch is not checked: it merges into the current object, and validation refuses a changed uid.
    """
    actual = current.object["metadata"]["uid"] if current is not None else ""
    if uid and uid != actual:
        name, place = command.name, ""
        if definition.rules.error_texts == "kubernetes":
            key = "/".join(filter(None, (_storage_key(definition), command.namespace, name)))
            prefix = "" if command.dry_run else "/registry"
            place = f"StorageError: invalid object, Code: 4, Key: {prefix}/{key}, ResourceVersion: 0, "
            place += "AdditionalErrorMsg: "
        raise _other_uid(definition, name, uid, actual, place)


def _storage_key(definition: Definition) -> str:
    """Return where kube-apiserver stores the objects of a kind in etcd."""
    plural: str = definition.plural
    if definition.is_custom or plural in ("customresourcedefinitions", "apiservices"):
        return f"{definition.group}/{plural}"
    return _OTHER_KEYS.get(plural, plural)


_OTHER_KEYS: Final = {
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


def check_delete(definition: Definition, name: str, options: DeleteOptions, current: Current) -> None:
    """Check the preconditions of a delete."""
    uid, version = current.object["metadata"]["uid"], current.version
    if definition.deletion.uid_is_precondition:
        if options.uid is not None and options.uid != uid:
            raise _other_uid(definition, name, options.uid, uid)
        check_version_precondition(definition, name, options.resource_version, version)
        return
    kind = Resource(definition.error_group, definition.kind)
    if options.uid is not None and options.uid != uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
        raise Conflict(kind, name, f"{why}. The object might have been deleted and then recreated")
    wanted = options.resource_version
    if wanted is not None and wanted != version:
        record = f"does not match the ResourceVersion in record ({version or _UNCOMMITTED})"
        why = f"the ResourceVersion in the precondition ({wanted}) {record}"
        raise Conflict(kind, name, f"{why}. The object might have been modified")


def _other_uid(definition: Definition, name: str, uid: str, actual: str, place: str = "") -> Conflict:
    why = f"UID in precondition: {uid}, UID in object meta: {actual}"
    return Conflict(definition.resource, name, f"{place}Precondition failed: {why}")


def _not_a_version(definition: Definition, text: str) -> BadRequest | NotANumber:
    if definition.rules.error_texts == "kubernetes":
        return NotANumber(text)
    return BadRequest(
        f"metadata.resourceVersion: Invalid value: {quoted_start(text)}: must be a version this API gave"
    )
