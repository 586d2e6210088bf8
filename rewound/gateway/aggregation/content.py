"""Deletes the objects that a namespace has on an aggregated server, for the namespace controller.

It acts as the controller and like any client of that server's API: it requests the resources of the group version,
and for each that supports it deletes the collection, or one object after the other. What is listed after that
remains.

All of this takes at most `SECONDS`: the rest is left to the next attempt. So a server that hangs, or whose lists
never end, does not keep the controller from deleting other namespaces.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson
import trio

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.aggregation.content import RemoteContent, Undiscovered
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.actors.runtime.threads import run_in_thread
from rewound.gateway.aggregation.servers import MAX_DISCOVERY, AggregatedServers, Fetched, FetchFailed

SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 30.0
MAX_PAGE: Final = 16 << 20
PAGE: Final = 500  # objects per page
_BACKGROUND: Final = "propagationPolicy=Background"
_RESOURCE: Final = re.compile(r"[a-z0-9.-]+")
_UNSUPPORTED: Final = (404, 405)
_TEXTS: Final = {
    404: "the server could not find the requested resource",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class _Failed(Exception):
    """A request failed; the text says how."""


class _Listed(NamedTuple):
    name: str
    finalizers: tuple[str, ...]
    deleting: bool


class NamespaceContent:
    """The content of one namespace in one aggregated group version."""

    def __init__(
        self, servers: AggregatedServers, names: Names, one: ApiService, namespace: str, user: User
    ) -> None:
        self._servers = servers
        self._one = one
        self._namespace = namespace
        self._user = user
        # Metadata is enough, and objects may be large. Some servers only return whole objects.
        partial = f"as=PartialObjectMetadataList;g={names.group('meta')};v=v1"
        self._accept = f"application/json;{partial},application/json".encode()
        self._deadline = trio.current_time() + SECONDS

    async def delete(self) -> RemoteContent:
        """Delete everything; return what remains. Raises Undiscovered if the resources cannot be listed."""
        remaining: dict[str, list[tuple[str, ...]]] = {}
        failures: list[str] = []
        for resource in await self._resources():
            name = resource["name"]
            try:
                left = await self._delete_all(name, resource["verbs"])
            except _Failed as error:
                failures.append(str(error))
            else:
                if left:
                    remaining[name] = left
        return RemoteContent(remaining, tuple(failures))

    async def _resources(self) -> list[dict[str, Any]]:
        """The namespaced resources that can be deleted."""
        try:
            fetched = await self._request("GET", self._one.discovery_path, MAX_DISCOVERY)
            found = await run_in_thread(_entries, fetched.body, "resources")
        except _Failed as error:
            raise Undiscovered(str(error)) from None
        return [
            one
            for one in found
            if isinstance(one.get("name"), str)
            and _RESOURCE.fullmatch(one["name"])
            and one.get("namespaced") is True
            and isinstance(one.get("verbs"), list)
            and "delete" in one["verbs"]
        ]

    async def _delete_all(self, resource: str, verbs: list[Any]) -> list[tuple[str, ...]]:
        """Delete all objects of a resource; return the finalizers of each that remains."""
        path = f"{self._one.discovery_path}/namespaces/{self._namespace}/{resource}"
        if "deletecollection" in verbs:
            await self._request("DELETE", path, MAX_PAGE, _BACKGROUND, self._accept, missing=True)
        left = await self._list(path, verbs)
        if left and "deletecollection" not in verbs:
            for one in left:
                name = quote(one.name, safe="")
                if name and not one.deleting:
                    await self._request("DELETE", f"{path}/{name}", MAX_PAGE, _BACKGROUND, missing=True)
            left = await self._list(path, verbs)
        return [one.finalizers for one in left]

    async def _list(self, path: str, verbs: list[Any]) -> list[_Listed]:
        """List all objects of a resource."""
        found: list[_Listed] = []
        token = ""
        while "list" in verbs:
            query = f"limit={PAGE}" + (f"&continue={quote(token, safe='')}" if token else "")
            fetched = await self._request("GET", path, MAX_PAGE, query, self._accept, missing=True)
            if fetched.status in _UNSUPPORTED:
                break
            items, token = await run_in_thread(_page, fetched.body)
            found += items
            if not token:
                break
        return found

    async def _request(
        self,
        method: str,
        path: str,
        largest: int,
        query: str = "",
        accept: bytes = b"",
        *,
        missing: bool = False,
    ) -> Fetched:
        """A successful response, or with `missing` one that says that nothing was found. Raises _Failed for others."""
        seconds = min(REQUEST_SECONDS, self._deadline - trio.current_time())
        try:
            if seconds <= 0:
                raise FetchFailed("context deadline exceeded")
            fetched = await self._servers.fetch(
                self._one,
                path,
                largest=largest,
                seconds=seconds,
                accept=accept,
                query=query,
                method=method,
                user=self._user,
            )
        except FetchFailed as error:
            raise _Failed(str(error)) from None
        status = fetched.status
        if 200 <= status <= 206 or (missing and status in _UNSUPPORTED):
            return fetched
        raise _Failed(failure_text(fetched))


def failure_text(fetched: Fetched) -> str:
    """The text of client-go for a failed response that it cannot read."""
    text = fetched.body[:200].decode("utf-8", "replace").strip()
    return (
        _TEXTS.get(fetched.status)
        or f'an error on the server ("{text}") has prevented the request from succeeding'
    )


def status_message(body: bytes) -> str:
    """The message of a Status; "" if the body is not one."""
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    is_status = isinstance(sent, dict) and sent.get("kind") == "Status"
    return str(sent.get("message", "")) if is_status else ""


def _entries(body: bytes, member: str) -> list[dict[str, Any]]:
    """The entries of a list. Raises _Failed if there are none."""
    return [one for one in _document(body, member)[member] or () if isinstance(one, dict)]


def _page(body: bytes) -> tuple[list[_Listed], str]:
    """The objects on one page of a list, and where the next one starts. Raises _Failed."""
    document = _document(body, "items")
    found = []
    for one in document["items"] or ():
        metadata = _metadata(one)
        finalizers = metadata.get("finalizers")
        names = tuple(map(str, finalizers)) if isinstance(finalizers, list) else ()
        found.append(_Listed(str(metadata.get("name") or ""), names, "deletionTimestamp" in metadata))
    return found, str(_metadata(document).get("continue") or "")


def _document(body: bytes, member: str) -> dict[str, Any]:
    """Parse a document with this list. Raises _Failed if it is not one."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and isinstance(document.get(member, ""), list | None):
        return document
    raise _Failed("the server's response has an unexpected form")


def _metadata(one: Any) -> dict[str, Any]:
    metadata = one.get("metadata") if isinstance(one, dict) else None
    return metadata if isinstance(metadata, dict) else {}
