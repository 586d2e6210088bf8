"""History from a data folder: the same functions that the API uses, without a server.

A folder is never written to, so a rollback or undelete returns the object that a client would send.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import orjson

from rewound.actors.errors import BadRequest
from rewound.actors.golang.json import unescaped
from rewound.actors.names import CLUSTER, NAMES, Names
from rewound.actors.rewind.blame import blame
from rewound.actors.rewind.documents import blame_document, event_document, history_page, patch_of
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.moments import parse_moment, resolve
from rewound.actors.rewind.restore import absent_fields, rolled_back, undeleted
from rewound.actors.rewind.versions import Address, looks_like_uid, name_of_uid, newest
from rewound.gateway.cli.command import Failure
from rewound.gateway.cli.journal.printing import object_bytes
from rewound.gateway.cli.journal.query.folder import Folder as DataFolder
from rewound.gateway.cli.journal.query.folder import Kind
from rewound.gateway.cli.rewind.source import Document, Wanted
from rewound.gateway.client.errors import print_warning
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.records import Event, Row

PAGE = 500


class Folder:
    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._journal = folder.journal

    def names(self) -> Names:
        return NAMES.get(self._journal.dialect, CLUSTER)

    def is_secret(self, wanted: Wanted) -> bool:
        return self._folder.kinds.find(wanted.kind).type_name == "secrets"

    def history(self, wanted: Wanted, limit: int | None) -> Iterator[Document]:
        address, start, found = self._address(wanted), MAX_OFFSET, False
        while start and (limit is None or limit > 0):
            steps = history_page(
                self._journal, address, start, min(limit or PAGE, PAGE), managed_fields=False
            )
            items, start, _ = run(steps)
            yield from items
            found = found or bool(items)
            limit = None if limit is None else limit - len(items)
        if not found:
            raise _not_found(wanted)

    def diff(self, wanted: Wanted, ends: str) -> Document:
        before, after = self._bodies(wanted, ends)
        return {"kind": "Difference", "patch": patch_of(before, after, managed_fields=False)}

    def contents(self, wanted: Wanted, ends: str) -> tuple[Document | None, Document | None]:
        before, after = (None if body is None else orjson.loads(body) for body in self._bodies(wanted, ends))
        return before, after

    def _bodies(self, wanted: Wanted, ends: str) -> tuple[bytes | None, bytes | None]:
        first, dots, second = ends.partition("..")
        if not dots:
            raise BadRequest(f"{ends!r} are not two versions or times: A..B, or A..")
        rows = [self._row(wanted, one) for one in (first, second)]
        if rows == [None, None]:
            raise _not_found(wanted)
        before, after = (None if row is None else row.body for row in rows)
        return before, after

    def blame(self, wanted: Wanted, at: str) -> Document:
        address = self._address(wanted)
        with self._journal.read() as view:
            upto = resolve(view, parse_moment(at), _now()) if at else MAX_OFFSET
        last = run(newest(self._journal, address, upto))
        if last is not None and last.removed:
            last = run(newest(self._journal, replace(address, uid=""), last.previous))
        if last is None:
            raise _not_found(wanted)
        fields = blame_document(run(blame(self._journal, last)))
        return {"kind": "Blame", **event_document(last), "fields": fields}

    def objects(self, wanted: Wanted, at: str) -> list[Document]:
        kind = self._folder.kinds.find(wanted.kind)
        if wanted.name:
            row = self._row(wanted, at)
            if row is None:
                raise _not_found(wanted)
            return [_typed(kind, row.body)]
        namespace = None if wanted.all_namespaces or not kind.namespaced else wanted.namespace or "default"
        with self._journal.read() as view:
            state = view.at(resolve(view, parse_moment(at), _now()) if at else view.head)
            rows = state.page(self._folder.kinds.type_id(kind), namespace).bodies
        return [_typed(kind, body) for body in rows]

    def rollback(self, wanted: Wanted, to: str, fields: list[str], *, dry_run: bool) -> Document:
        past, present = self._row(wanted, to), self._row(wanted, "")
        if past is None or present is None:
            raise _not_found(wanted)
        now, then = orjson.loads(present.body), orjson.loads(past.body)
        for text in absent_fields(now, then, fields):
            print_warning(text)
        content = rolled_back(now, then, fields)
        return _typed(self._folder.kinds.find(wanted.kind), unescaped(content))

    def undelete(self, wanted: Wanted, *, dry_run: bool) -> Document:
        last = self._deleted(wanted)
        content = undeleted(orjson.loads(last.body))
        return _typed(self._folder.kinds.find(wanted.kind), unescaped(content))

    def _deleted(self, wanted: Wanted) -> Event:
        last = run(newest(self._journal, self._address(wanted), MAX_OFFSET))
        if last is None:
            raise _not_found(wanted)
        if not last.removed and not wanted.uid:
            raise Failure(f"{wanted.kind} {wanted.name} exists: it was not deleted")
        return last

    def _row(self, wanted: Wanted, at: str) -> Row | None:
        address = self._address(wanted)
        with self._journal.read() as view:
            version = resolve(view, parse_moment(at), _now()) if at else view.head
            return view.at(version).get(address.type_id, address.namespace, address.name)

    def _address(self, wanted: Wanted) -> Address:
        kind = self._folder.kinds.find(wanted.kind)
        namespace = "" if kind.namespaced is False else wanted.namespace or "default"
        type_id = self._folder.kinds.type_id(kind)
        address = Address(type_id, namespace, wanted.name, wanted.uid)
        if looks_like_uid(wanted.name) and run(newest(self._journal, address, MAX_OFFSET)) is None:
            name = run(name_of_uid(self._journal, type_id, namespace, wanted.name))
            address = Address(type_id, namespace, name, wanted.name) if name else address
        return address


def _typed(kind: Kind, body: bytes) -> Document:
    document: Document = orjson.loads(object_bytes(kind, body))
    return document


def _not_found(wanted: Wanted) -> Failure:
    return Failure(
        f"no version of {wanted.kind} {wanted.name} is in its journal; `rewound journal log` shows what is"
    )


def _now() -> int:
    return time.time_ns() // 1000
