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


class Discovery:
    """The discovery documents of a server, each requested once: a command may ask for many resources."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._groups: list[dict[str, Any]] | None = None
        self._resources: dict[str, list[dict[str, Any]]] = {}  # by the path of their group version

    def names(self) -> Names:
        """The dialect of the server, by the names of its API groups."""
        groups = {group["name"] for group in self._all_groups()}
        for names in NAMES.values():
            if names.group("authentication") in groups:
                return names
        server = self._session.target.server
        raise ClientError(f"{server} serves no authentication group; is it an API server?")

    def find(self, name: str) -> ResourceType | None:
        """Find a resource by plural, singular, short name or kind, also with its group (`deployments.v1.apps`)."""
        plural, _, group = name.lower().partition(".")
        for prefix, group_name in self._group_versions():
            if group and group not in (group_name, f"{prefix.rpartition('/')[2]}.{group_name}"):
                continue
            for one in self._resources_of(prefix):
                if plural in _accepted(one):
                    return ResourceType(
                        group_name, one["name"], bool(one.get("namespaced")), prefix, one.get("kind", "")
                    )
        return None

    def known_names(self) -> tuple[set[str], set[str]]:
        """All names of all resources, and the plurals among them; without the groups that are unavailable."""
        names: set[str] = set()
        plurals: set[str] = set()
        for prefix, group in self._group_versions():
            for one in self._resources_of(prefix):
                plurals.add(one["name"])
                names |= _accepted(one) | ({f"{one['name']}.{group}"} if group else set())
        return names - {""}, plurals

    def _group_versions(self) -> list[tuple[str, str]]:
        """The paths of all versions, each with its group: the core group, then preferred versions, then the rest."""
        groups = self._all_groups()
        preferred = [
            (f"/apis/{group['preferredVersion']['groupVersion']}", group["name"]) for group in groups
        ]
        others = [
            (f"/apis/{version['groupVersion']}", group["name"])
            for group in groups
            for version in group.get("versions", ())
        ]
        return list(dict.fromkeys([("/api/v1", ""), *preferred, *others]))

    def _all_groups(self) -> list[dict[str, Any]]:
        if self._groups is None:
            self._groups = self._session.get("/apis").get("groups", [])
        return self._groups

    def _resources_of(self, prefix: str) -> list[dict[str, Any]]:
        """The resources of a group version, without subresources; none if it is unavailable: others can be read."""
        if prefix not in self._resources:
            try:
                found = self._session.get(prefix).get("resources", [])
            except StatusError as error:
                if error.code in (401, 403):
                    raise
                found = []
            self._resources[prefix] = [one for one in found if "/" not in one["name"]]
        return self._resources[prefix]


def _accepted(resource: dict[str, Any]) -> set[str]:
    """The names by which users may call a resource."""
    return {
        resource["name"],
        resource.get("singularName", ""),
        resource.get("kind", "").lower(),
        *resource.get("shortNames", ()),
    }
