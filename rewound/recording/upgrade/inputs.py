"""Reads what an upgrade is rehearsed with, besides manifests: the objects of a data folder or a server, and audit logs.

Objects come as `Item`s and requests as `Used`; CustomResourceDefinitions come first, because the objects of their
kinds need them. Everything is untrusted input of any size: folders, servers and logs are read in parts.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import Names
from rewound.actors.rewind.contents import named, parsed
from rewound.client.errors import ClientError, Failure, StatusError
from rewound.client.streaming import StreamingSession
from rewound.journal import backup, transfer
from rewound.journal.batching import in_batches, size_of_row
from rewound.journal.view import View
from rewound.recording.compressed import decompressed
from rewound.recording.manifests import CREATE, DAMAGED, STORED, UPDATE, Item
from rewound.recording.query.entries import object_bytes
from rewound.recording.query.folder import Folder
from rewound.recording.record.audit_exports import audit_lines
from rewound.recording.record.kinds import RecordedKind, discover
from rewound.recording.record.requests import Request, Unreadable, requests_in
from rewound.recording.upgrade.rehearsal import managed_fields

Document = dict[str, Any]

_PAGE: Final = 500  # objects that are read at once
_MOST_SEARCHED: Final = 50  # versions of an object, for who wrote it
_DEPRECATED: Final = b"apiserver_requested_deprecated_apis{"
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_SECONDS: Final = 60.0
_OWN_AGENT: Final = "rewound/"  # of our commands, which list all kinds


@dataclass(frozen=True, slots=True)
class Used:
    """A request for a resource, or all that a metric counts."""

    group: str
    version: str
    plural: str
    subresource: str = ""
    verb: str = ""
    user: str = ""
    agent: str = ""
    document: Document | None = None  # that was sent and accepted, if the source has it
    how: str = CREATE
    where: str = ""

    @property
    def who(self) -> str:
        return f"{self.user} ({self.agent})" if self.user and self.agent else self.user or self.agent


def is_journal(file: Path) -> bool:
    """Whether a file is one that `rewound export`, `record` or `backup` wrote."""
    if not file.is_file():
        return False
    try:
        with file.open("rb") as raw:
            start = decompressed(raw).read(len(backup.MAGIC))
    except DAMAGED as error:
        raise Failure(f"--file: {file}: {error}") from error
    return start in (backup.MAGIC, transfer.MAGIC)


# Data folders and recordings.


def stored_items(folder: Folder, names: Names) -> Iterator[Item]:
    """Every object that a journal has now, with who wrote it last."""
    kinds = sorted(folder.kinds.all(), key=lambda one: one.type_name != definition_type(names))
    for kind in kinds:
        if not kind.api_version:
            continue  # neither this release nor the journal declares it
        type_id, after = folder.kinds.type_id(kind), None
        while True:
            page: list[Item] = []
            with folder.journal.read() as view:
                rows = view.rows(type_id, None, after=after)
                for namespace, name, row in next(in_batches(rows, size_of_row, most=_PAGE), ()):
                    after = namespace, name
                    document = parsed(object_bytes(kind, named(row.body, namespace, name)))
                    page.append(Item(document, STORED, _writer(view, row.offset, manager_of(document))))
            if not page:
                break
            yield from page


def _writer(view: View, offset: int, manager: str) -> str:
    """The user and manager of the last write by `manager`, as far as the journal has it; of the last one if empty.

    Most objects were written last by whoever writes their status.
    """
    for _ in range(_MOST_SEARCHED):
        event = view.event(offset)
        if event is None:
            break
        if event.manager == manager or not manager:
            manager, user = event.manager_text, event.user_text
            return f"{user} ({manager})" if user and manager else user or manager
        offset = event.previous
    return manager


def manager_of(document: Document) -> str:
    """The manager of the last write that was not one of the status; empty if it is not known."""
    entries = [one for one in managed_fields(document) if not one.get("subresource")]
    last = max(entries, key=lambda one: str(one.get("time") or ""), default={})
    return str(last.get("manager") or "")


# Servers.


class ServerObjects:
    """The objects of a running server, of any release, as far as the user may list them."""

    def __init__(
        self, session: StreamingSession, catalog: Catalog, names: Names, namespace: str = ""
    ) -> None:
        """`namespace`: only what is in it, and the definitions of custom kinds."""
        self._session, self._catalog, self._names = session, catalog, names
        self._namespace = namespace
        self.problems: list[str] = []  # what could not be read

    async def items(self) -> AsyncIterator[Item]:
        """Raises ClientError if nothing can be read."""
        found = await discover(self._session, self._catalog, self._names)
        self.problems += found.problems
        read = 0
        for kind in found.kinds:
            if self._namespace and not kind.namespaced and kind.type_name != definition_type(self._names):
                continue
            try:
                async for item in self._list(kind):
                    yield item
                read += 1
            except StatusError as error:
                self.problems.append(f"{kind.type_name} cannot be listed and are left out: {error}")
        if not read:
            raise ClientError("no kind could be listed; grant this user list, or choose another user")

    async def _list(self, kind: RecordedKind) -> AsyncIterator[Item]:
        token = ""
        while True:
            query = {"limit": str(_PAGE), **({"continue": token} if token else {})}
            page = await self._session.get_document(kind.path(self._namespace), **query)
            for one in page.get("items") or ():
                document = {"apiVersion": kind.api_version, "kind": kind.kind, **one}
                yield Item(document, STORED, manager_of(document))
            before, token = token, str((page.get("metadata") or {}).get("continue") or "")
            if not token or token == before:
                return

    async def deprecated(self) -> list[Used]:
        """The deprecated versions that clients have requested since the server started; none if it does not say."""
        found: list[Used] = []

        async def take(line: bytes) -> None:
            if line.startswith(_DEPRECATED):
                labels = dict(_LABEL.findall(line.decode(errors="replace")))
                group, version, plural = (labels.get(one, "") for one in ("group", "version", "resource"))
                found.append(Used(group, version, plural, labels.get("subresource", ""), where="/metrics"))

        try:
            await self._session.read_lines("/metrics", _SECONDS, take)
        except ClientError as error:
            self.problems.append(
                f"/metrics, which names requests of deprecated versions, cannot be read: {error}"
            )
        return found


# Audit logs.


class AuditRequests:
    """The requests of audit logs, reads too."""

    def __init__(self) -> None:
        self.unreadable, self.problem = (
            0,
            "",
        )  # lines that are no audit event, and what is wrong with the first

    def read(self, file: Path) -> Iterator[Used]:
        """Raises Failure if the compression is damaged, and OSError."""
        with file.open("rb", buffering=1 << 20) as raw:
            try:
                for line in audit_lines(decompressed(raw)):
                    yield from self._in_line(line)
            except DAMAGED as error:
                raise Failure(f"--audit-log: {file}: {error}") from error

    def _in_line(self, line: bytes) -> Iterator[Used]:
        try:
            for request in requests_in(line, reads=True):
                is_own = request.agent.startswith(_OWN_AGENT)
                if request.resource and request.version and request.code != 401 and not is_own:
                    yield _used(request)
        except Unreadable as error:
            self.unreadable += error.events
            self.problem = self.problem or str(error)


def _used(request: Request) -> Used:
    verb = request.journal_verb
    sends = verb in (CREATE, UPDATE) and not request.subresource and not request.refused
    document = request.sent if sends and isinstance(request.sent, dict) else None
    return Used(
        request.group,
        request.version,
        request.resource,
        request.subresource,
        verb,
        request.user,
        request.agent,
        document,
        UPDATE if verb == UPDATE else CREATE,
    )
