"""History by the API of a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rewound.actors.names import REWIND_GROUP, Names
from rewound.gateway.cli.access.flags import UsageError, segment
from rewound.gateway.cli.rewind.source import Document, Wanted
from rewound.gateway.client.discovery import ResourceType, find_resource, server_names
from rewound.gateway.client.session import Session

ROOT = f"/apis/{REWIND_GROUP}/v1"
PAGE = 500


class Server:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[str, ResourceType] = {}

    def names(self) -> Names:
        return server_names(self._session)

    def is_secret(self, wanted: Wanted) -> bool:
        found = self._resource(wanted.kind)
        return (found.group, found.plural) == ("", "secrets")

    def history(self, wanted: Wanted, limit: int | None) -> Iterator[Document]:
        left, token = limit, ""
        while left is None or left > 0:
            query = {"limit": str(min(left or PAGE, PAGE)), "managedFields": "false"}
            if token:
                query["continue"] = token
            page = self._get(wanted, "history", query)
            yield from page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return
            left = None if left is None else left - len(page["items"])

    def diff(self, wanted: Wanted, ends: str) -> Document:
        return self._get(wanted, "history", {"diff": ends, "managedFields": "false"})

    def contents(self, wanted: Wanted, ends: str) -> tuple[Document | None, Document | None]:
        """The difference has the versions of its ends, and the name of an object that was given by its uid."""
        found = self.diff(wanted, ends)
        named = replace(wanted, name=found["object"]["name"])
        before, after = (
            self.objects(named, end["version"])[0] if "objectVersion" in end else None
            for end in (found["from"], found["to"])
        )
        return before, after

    def blame(self, wanted: Wanted, at: str) -> Document:
        return self._get(wanted, "blame", {"at": at} if at else {})

    def objects(self, wanted: Wanted, at: str) -> list[Document]:
        found = self._resource(wanted.kind)
        where = "" if wanted.all_namespaces else self._place(found, wanted)
        path = f"{found.prefix}{where}/{found.plural}"
        query = {"at": at} if at else {}
        if wanted.name:
            return [self._session.get(f"{path}/{segment(wanted.name)}", **query)]
        objects: list[Document] = []
        query["limit"] = str(PAGE)
        while True:
            page = self._session.get(path, **query)
            kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            objects += [{**kind, **one} for one in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                return objects
            query["continue"] = token

    def rollback(self, wanted: Wanted, to: str, fields: list[str], *, dry_run: bool) -> Document:
        body: dict[str, Any] = {"to": to}
        if fields:
            body["fields"] = fields
        return self._post(wanted, "rollback", body, dry_run=dry_run)

    def undelete(self, wanted: Wanted, *, dry_run: bool) -> Document:
        return self._post(wanted, "undelete", {"uid": wanted.uid} if wanted.uid else {}, dry_run=dry_run)

    def _get(self, wanted: Wanted, below: str, query: dict[str, str]) -> Document:
        if wanted.uid:
            query = {**query, "uid": wanted.uid}
        return self._session.get(self._path(wanted, below), **query)

    def _post(self, wanted: Wanted, below: str, body: Document, *, dry_run: bool) -> Document:
        query = {"dryRun": "All"} if dry_run else {}
        return self._session.request("POST", self._path(wanted, below), body, query)

    def _path(self, wanted: Wanted, below: str) -> str:
        found = self._resource(wanted.kind)
        resource = f"{found.plural}.{found.group}" if found.group else found.plural
        return f"{ROOT}{self._place(found, wanted)}/{resource}/{segment(wanted.name)}/{below}"

    def _place(self, found: ResourceType, wanted: Wanted) -> str:
        if not found.namespaced:
            return ""
        return f"/namespaces/{segment(wanted.namespace or self._session.target.namespace)}"

    def _resource(self, kind: str) -> ResourceType:
        if kind not in self._found:
            found = find_resource(self._session, kind)
            if found is None:
                raise UsageError(f"the server has no resource {kind!r}")
            self._found[kind] = found
        return self._found[kind]
