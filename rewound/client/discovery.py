"""Reads discovery for commands: the dialect of the server, and the group of a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewound.actors.names import NAMES, Names
from rewound.client.errors import ClientError, StatusError
from rewound.client.session import Session


@dataclass(frozen=True, slots=True)
class ResourceType:
    group: str
    plural: str
    namespaced: bool
    prefix: str = ""  # of its paths: /api/v1, /apis/apps/v1
    kind: str = ""


def server_names(session: Session) -> Names:
    """The dialect of the server, by the names of its API groups."""
    groups = {group["name"] for group in session.get("/apis").get("groups", [])}
    for names in NAMES.values():
        if names.group("authentication") in groups:
            return names
    raise ClientError(f"{session.target.server} serves no authentication group; is it an API server?")


def find_resource(session: Session, name: str) -> ResourceType | None:
    """Find a resource by plural, singular, short name or kind, also with its group (`deployments.v1.apps`)."""
    plural, _, group = name.lower().partition(".")
    for prefix, group_name in _group_versions(session):
        if group and group not in (group_name, f"{prefix.rpartition('/')[2]}.{group_name}"):
            continue
        found = _find(session, prefix, group_name, plural)
        if found is not None:
            return found
    return None


def _group_versions(session: Session) -> list[tuple[str, str]]:
    """The paths of all versions, each with its group: the core group, then preferred versions, then the rest."""
    groups = session.get("/apis").get("groups", [])
    preferred = [(f"/apis/{group['preferredVersion']['groupVersion']}", group["name"]) for group in groups]
    others = [
        (f"/apis/{version['groupVersion']}", group["name"])
        for group in groups
        for version in group.get("versions", ())
    ]
    return list(dict.fromkeys([("/api/v1", ""), *preferred, *others]))


def _find(session: Session, prefix: str, group: str, name: str) -> ResourceType | None:
    try:
        resources = session.get(prefix).get("resources", [])
    except StatusError as error:
        if error.code in (401, 403):
            raise
        # The other groups can be read although this one is unavailable.
        return None
    for one in resources:
        if "/" not in one["name"] and name in _accepted(one):
            return ResourceType(group, one["name"], bool(one.get("namespaced")), prefix, one.get("kind", ""))
    return None


def _accepted(resource: dict[str, Any]) -> set[str]:
    """The names by which users may call a resource."""
    return {
        resource["name"],
        resource.get("singularName", ""),
        resource.get("kind", "").lower(),
        *resource.get("shortNames", ()),
    }


def known_names(session: Session) -> tuple[set[str], set[str]]:
    """All names of all resources, and the plurals among them; without the groups that are unavailable."""
    names: set[str] = set()
    plurals: set[str] = set()
    for prefix, group in _group_versions(session):
        try:
            resources = session.get(prefix).get("resources", [])
        except StatusError:
            continue
        for one in resources:
            if "/" not in one["name"]:
                plurals.add(one["name"])
                names |= _accepted(one) | ({f"{one['name']}.{group}"} if group else set())
    return names - {""}, plurals
