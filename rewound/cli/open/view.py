"""Finds what the page is to show: checks the object and moment that `rewound open` names before a browser starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from rewound.actors.names import REWIND_GROUP
from rewound.client.discovery import Discovery
from rewound.client.errors import Failure, StatusError, UsageError
from rewound.client.session import Session
from rewound.client.target import segment
from rewound.gateway.pipeline.route import PAGE_PATH, TIMELINE_PATH
from rewound.recording.query.moments import Moment, exact, rfc3339

AROUND = 15 * 60 * 1_000_000  # microseconds before and after the moment
_MARGIN = 5 * 1_000_000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    user: str
    path: str  # the page's, with a fragment that selects what it shows


def find_view(session: Session, kind: str, name: str, namespace: str, at: Moment | None) -> View:
    """Find the view. `namespace` is that of the flag, or empty. Raises ClientError, Failure or UsageError."""
    types = _types(session)
    state: dict[str, str] = {}
    if kind and not name:
        state["type"] = _find_type(session, types["items"], kind).name
    if name:
        found = _find_type(session, types["items"], kind)
        where = session.target.namespace if found.namespaced else ""
        state["object"] = f"{found.name}/{where}/{name}"
        if where and not found.listed:
            state["namespace"] = where  # the user may list it there only, if at all
        newest = _newest_change(session, found, where, name)
        if newest is not None:
            state["at"] = newest["version"]
    elif namespace:
        state["namespace"] = namespace
        _check_namespace(session, namespace)
    if at is not None and at != Moment():
        state |= _moment(session, at, state.get("namespace", ""))
    return View(types["user"], f"{PAGE_PATH}#{urlencode(state)}" if state else PAGE_PATH)


def _types(session: Session) -> Document:
    """The user, and the kinds that it may list in all namespaces. Raises Failure if the server has no page."""
    try:
        return session.get(f"{TIMELINE_PATH}/types")
    except StatusError as error:
        if error.code != 404:
            raise
        raise Failure(
            f"{session.target.server} has no page about its journal: it is not Rewound, or it runs with "
            f"--enable-journal-page=false ({session.target.configured_in}). `rewound record` captures any cluster, and "
            "`rewound open --file` shows what it captured"
        ) from error


@dataclass(frozen=True, slots=True)
class _Type:
    name: str  # deployments.apps
    namespaced: bool
    listed: bool  # the user may list it in all namespaces


def _find_type(session: Session, types: list[Document], kind: str) -> _Type:
    """Look a type up in what the page knows, which is one response; else in discovery, which is one for each group."""
    wanted, _, group = kind.lower().partition(".")
    for one in types:
        known = {one["resource"], one["kind"].lower(), *one.get("shortNames", ())}
        if wanted in known and group in ("", one["type"].partition(".")[2]):
            return _Type(one["type"], bool(one["namespaced"]), True)
    found = Discovery(session).find(kind)
    if found is None:
        raise UsageError(
            f"the server has no resource {kind!r}; name it like Pod, pods, po or deployments.apps"
        )
    name = f"{found.plural}.{found.group}" if found.group else found.plural
    return _Type(name, found.namespaced, any(one["type"] == name for one in types))


def _newest_change(session: Session, found: _Type, namespace: str, name: str) -> Document | None:
    """The newest change of an object; None if the user may not read its history. Raises Failure if it never existed."""
    where = f"/namespaces/{segment(namespace)}" if namespace else ""
    path = f"/apis/{REWIND_GROUP}/v1{where}/{found.name}/{segment(name)}/history"
    try:
        newest: Document = session.get(path, limit="1", managedFields="false")["items"][0]
        return newest
    except StatusError as error:
        if error.code == 403:  # the page shows what its user may see
            return None
        if error.code != 404:
            raise
        place = f" in the namespace {namespace}; check -n and the name" if namespace else "; check the name"
        raise Failure(f"the journal has no {found.name} {name!r}{place}") from error


def _check_namespace(session: Session, namespace: str) -> None:
    if not session.get(f"{TIMELINE_PATH}/events", namespace=namespace, limit="1")["items"]:
        raise Failure(
            f"--namespace: the journal has nothing in {namespace!r} that you may list; check the name"
        )


def _moment(session: Session, at: Moment, namespace: str) -> dict[str, str]:
    """The cursor, and the time around it. Raises Failure if the journal does not have the moment."""
    query = {"limit": "1", **({"namespace": namespace} if namespace else {})}
    ends = session.get(f"{TIMELINE_PATH}/events", **query)
    oldest, newest = ends.get("oldest"), ends.get("newest")
    if oldest is None or newest is None:
        raise Failure(
            "--at: you may list no kind in all namespaces, or the journal is empty; name a namespace with -n, or leave "
            "--at out"
        )
    time = at.time
    if time is None:
        assert at.offset is not None
        time = _time_of(session, at.offset, oldest, newest, query)
    elif time < oldest["time"]:
        raise Failure(f"--at: {exact(time)} is too early: {_described('first', oldest)}")
    elif time > max(ends["now"], newest["time"]):
        raise Failure(f"--at: {exact(time)} is too late: {_described('newest', newest)}")
    cursor = {"at": str(at.offset) if at.offset is not None else rfc3339(time)}
    start = max(time - AROUND, oldest["time"] - _MARGIN)
    end = max(min(time + AROUND, newest["time"] + _MARGIN), time + _MARGIN)
    return {**cursor, "from": rfc3339(start), "to": rfc3339(end)}


def _time_of(
    session: Session, version: int, oldest: Document, newest: Document, query: dict[str, str]
) -> int:
    """When the journal reached a version."""
    if version < int(oldest["version"]):
        raise Failure(f"--at: version {version} is too early: {_described('first', oldest)}")
    if version > int(newest["version"]):
        raise Failure(f"--at: there is no version {version} yet; {_described('newest', newest)}")
    # The event itself may be of a kind that the user may not list.
    found = session.get(f"{TIMELINE_PATH}/events", to=str(version), **query)["items"]
    return int(found[0]["micros"]) if found else int(oldest["time"])


def _described(which: str, end: Document) -> str:
    return f"the {which} event that the journal has is version {end['version']}, of {exact(end['time'])}"
