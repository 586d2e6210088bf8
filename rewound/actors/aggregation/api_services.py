"""The stored APIServices, parsed: which group versions other servers serve, and the priorities of all.

They follow the feed with a synchronous callback, so that a route exists before the client gets the response to the
write that created it. The request pipeline looks only at `remote`, which is empty on most servers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from rewound.actors.access.remote.address import ServiceAddress
from rewound.actors.aggregation.priorities import (
    CUSTOM,
    Priority,
    api_services_group,
    api_services_type,
    built_in_priorities,
)
from rewound.actors.kinds.catalog import preference
from rewound.actors.messages import Object
from rewound.actors.names import REWIND_GROUP, Names
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

AVAILABLE: Final = "Available"
_DEFAULT_PORT: Final = 443

GroupVersion = tuple[str, str]


class ApiService(NamedTuple):
    name: str
    group: str
    version: str
    priority: Priority
    service: ServiceAddress | None  # None: this server serves it
    ca_bundle: bytes
    insecure: bool  # the certificate of the server is not verified
    available: bool

    @property
    def discovery_path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class _Reference(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    port: int | None = None


class _Spec(msgspec.Struct):
    """What is read of the spec of an APIService, with the types that it has in storage."""

    group: str = ""
    version: str = ""
    groupPriorityMinimum: int = 0
    versionPriority: int = 0
    service: _Reference | None = None
    caBundle: str | None = None
    insecureSkipTLSVerify: bool | None = None


def parse_api_service(stored: Object) -> ApiService:
    """Raises ValueError for a value of another type than its field has: all responses of discovery use it."""
    try:
        spec = msgspec.convert(stored["spec"], _Spec)
    except msgspec.ValidationError as error:
        raise ValueError(f"spec: {error}") from None
    return ApiService(
        stored["metadata"]["name"],
        spec.group,
        spec.version,
        Priority(spec.groupPriorityMinimum, spec.versionPriority),
        _service(spec.service),
        _decoded(spec.caBundle),
        bool(spec.insecureSkipTLSVerify),
        _is_available(stored),
    )


def _service(reference: _Reference | None) -> ServiceAddress | None:
    if reference is None:
        return None
    return ServiceAddress(reference.namespace, reference.name, reference.port or _DEFAULT_PORT)


def _decoded(bundle: str | None) -> bytes:
    try:
        return base64.b64decode(bundle or "")
    except binascii.Error:
        return b"-"  # not empty: with an unreadable bundle no certificate is trusted


def _is_available(stored: Object) -> bool:
    conditions = (stored.get("status") or {}).get("conditions") or ()
    return any(one["type"] == AVAILABLE and one["status"] == "True" for one in conditions)


class ApiServices:
    def __init__(
        self, names: Names, features: frozenset[str], journal: Journal, feed: Feed, *, forwards: bool = True
    ) -> None:
        """Without `forwards`, requests go to no other server: a replay cannot reach those of the recorded cluster."""
        self._forwards = forwards
        self._first = ("", api_services_group(names))  # in discovery
        self._built_in = built_in_priorities(names, features)
        self._type_id = journal.type_id(api_services_type(names))
        self._own_groups = frozenset({api_services_group(names), REWIND_GROUP})
        self._stored: dict[GroupVersion, ApiService] = {}
        # Group versions that other servers serve; every change replaces the whole mapping.
        self.remote: Mapping[GroupVersion, ApiService] = {}
        self.changes = 0  # grows with every change of routes or priorities
        with journal.read() as view:
            rows = view.rows(self._type_id, "")
            each_usable("apiservices", rows, lambda _, __, body: self._put(parse_api_service(decode(body))))
        feed.follow(self._committed, frozenset({self._type_id}))

    def stored(self) -> tuple[ApiService, ...]:
        return tuple(self._stored.values())

    def unregistered(self, served: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Return the names of the APIServices that built-in group versions lack."""
        return [
            f"{version}.{group}"
            for group, versions in served.items()
            for version in versions
            if (group, version) in self._built_in and (group, version) not in self._stored
        ]

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._type_id:
                continue
            parsed = parse_api_service(decode(event.body))
            if event.removed:
                self._remove(parsed)
            else:
                self._put(parsed)

    def _put(self, one: ApiService) -> None:
        key = one.group, one.version
        if self._stored.get(key) == one:
            return
        self._stored[key] = one
        self.changes += 1
        if one.service is not None and self._forwards and one.group not in self._own_groups:
            self.remote = {**self.remote, key: one}
        elif key in self.remote:
            self._withdraw(key)

    def _remove(self, one: ApiService) -> None:
        key = one.group, one.version
        if self._stored.pop(key, None) is not None:
            self.changes += 1
            self._withdraw(key)

    def _withdraw(self, key: GroupVersion) -> None:
        self.remote = {other: one for other, one in self.remote.items() if other != key}

    def sorted_groups(self, served: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the versions of each group, those of `served` and of other servers, ordered by priority."""
        versions: dict[str, set[str]] = {group: set(found) for group, found in served.items()}
        for group, version in self.remote:
            versions.setdefault(group, set()).add(version)
        first = {one: self._sorted_versions(one, versions.pop(one)) for one in self._first if one in versions}
        entries = [(group, version) for group, found in versions.items() for version in found]
        entries.sort(key=lambda key: (-self._priority(key).group, f"{key[1]}.{key[0]}"))
        groups: dict[str, list[str]] = {}
        for group, version in entries:
            groups.setdefault(group, []).append(version)
        return first | {group: self._sorted_versions(group, found) for group, found in groups.items()}

    def _sorted_versions(self, group: str, versions: Iterable[str]) -> tuple[str, ...]:
        return tuple(
            sorted(versions, key=lambda one: (-self._priority((group, one)).version, preference(one)))
        )

    def _priority(self, key: GroupVersion) -> Priority:
        stored = self._stored.get(key)
        if stored is not None:
            return stored.priority
        return self._built_in.get(key, CUSTOM)
