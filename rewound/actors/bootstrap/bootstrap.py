"""Creates the initial objects of a cluster where they are missing; `compose` calls it at every start.

It sends every object to its actor like any other write, concurrently, so that one commit carries a step. An existing
object stays unchanged, except for the fields with this server's address and what default roles and bindings lack. A
refused write is logged and does not stop the server: an operator who gave the API's ClusterIP to another service
needs a running server to repair that.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec
import trio

from rewound.actors.access.authorization.rbac.roles import autoupdate_key, uncovered
from rewound.actors.allocation.ranges import DEFAULT_RANGES, ServiceRanges
from rewound.actors.bootstrap.objects import (
    InitialObject,
    ServingAddress,
    api_endpoints,
    api_service,
    flow_control,
    health_roles,
    local_api_services,
    namespaces,
    priority_classes,
    roles,
    service_cidrs,
)
from rewound.actors.controllers.client import BATCH, Client, run_concurrently
from rewound.actors.errors import AlreadyExists, Conflict, RequestError
from rewound.actors.golang.json import dumps
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.document import decode
from rewound.actors.versions.features import SERVICE_CIDRS, V1_25
from rewound.journal.log import Journal

_log = logging.getLogger(__name__)

ATTEMPTS: Final = 3  # when another node changes the same objects


class _Change(msgspec.Struct, frozen=True):
    """A write to make: `new` replaces the stored object, or is created, after a delete if `recreate` is set."""

    wanted: InitialObject
    new: Object
    exists: bool
    recreate: bool = False


class Bootstrap:
    def __init__(
        self,
        names: Names,
        catalog: Catalog,
        journal: Journal,
        directory: Directory,
        write_contexts: WriteContexts,
        features: frozenset[str] = V1_25.features,
        *,
        aggregates_roles: bool = True,
    ) -> None:
        """`aggregates_roles`: whether a controller of this server fills roles that aggregate others."""
        self._names, self._features, self._aggregates = names, features, aggregates_roles
        self._catalog = catalog
        self._journal = journal
        self._directory, self._write_contexts = directory, write_contexts

    async def create_namespaces(self, ranges: ServiceRanges = DEFAULT_RANGES) -> None:
        """Create what must exist before the server listens: also the ranges of cluster IPs, where they are an object.

        A list of an empty journal would have version 0, which means any version in a watch. Anonymous health checks
        arrive at once, so the role and the binding that allow them are created here too.
        """
        cidrs = service_cidrs(self._names, ranges) if SERVICE_CIDRS in self._features else []
        health = health_roles(self._names, self._catalog, self._features)
        await self._create_or_update([*namespaces(self._names), *cidrs, *health])

    async def create_objects(
        self,
        ranges: ServiceRanges,
        serving: ServingAddress | None,
        others: Collection[ServingAddress] = (),
    ) -> None:
        """Create everything else. The API's Service needs the namespace `default`, and exists only if `serving` is
        set.

        `others` are the addresses of the other servers of this cluster.
        """
        own = () if serving is None else (api_service(self._names, ranges, serving),)
        serving_all = {*others, *(() if serving is None else (serving,))}
        await self._create_or_update(
            [
                *priority_classes(self._names),
                *flow_control(self._names, self._features),
                *own,
                *api_endpoints(self._names, serving_all),
                *local_api_services(self._names, self._features, self._catalog),
                # last, so that one commit has all objects of flow control
                *roles(self._names, self._catalog, self._features, aggregates=self._aggregates),
            ]
        )

    async def update_endpoints(self, serving: Collection[ServingAddress]) -> None:
        """Write these addresses to the Endpoints of the API's Service."""
        await self._create_or_update(api_endpoints(self._names, serving))

    async def _create_or_update(self, objects: Iterable[InitialObject]) -> None:
        """Write the objects in batches, so that other tasks run while one is committed."""
        remaining = iter(objects)
        while part := list(islice(remaining, BATCH)):
            for error in await self._write_part(part):
                _log.warning("an initial object of the cluster could not be stored: %s", error)
            await trio.lowlevel.checkpoint()

    async def _write_part(self, part: Sequence[InitialObject]) -> list[RequestError]:
        """Return the refusals. Retries conflicts: another node that starts at the same time may write the same
        objects.
        """
        refused: list[RequestError] = []
        for _ in range(ATTEMPTS):
            refused = await run_concurrently(self._write, self._changes(part))
            if not any(isinstance(error, Conflict) for error in refused):
                break
        return refused

    async def _write(self, change: _Change) -> None:
        definition = self._catalog.storage(change.wanted.type_name)
        manager = change.wanted.manager or self._names.server_manager
        client = Client(self._directory, self._write_contexts, SERVER_USER, manager)
        metadata = change.new["metadata"]
        namespace = metadata.get("namespace", "")
        if change.recreate:
            await client.delete(definition, namespace, metadata["name"], DeleteOptions())
        elif change.exists:
            await client.replace(definition, change.new)
            return
        try:
            await client.create(definition, namespace, change.new)
        except AlreadyExists:
            return

    def _changes(self, objects: Iterable[InitialObject]) -> list[_Change]:
        """Return the writes to make, with one lookup per object."""
        with self._journal.read() as view:
            found = [(one, view.get(self._journal.type_id(one.type_name), *_key(one))) for one in objects]
            rows = [
                (one, None if row is None else decode(row.body))
                for one, row in found
                if row is None or not (one.reconciled and is_as_wanted(row.body, one.document))
            ]
        return [change for one, stored in rows if (change := self._change(one, stored)) is not None]

    def _change(self, wanted: InitialObject, stored: Object | None) -> _Change | None:
        if stored is None:
            return _Change(wanted, self._decoded(wanted), exists=False)
        if wanted.reconciled:
            return self._reconciled(wanted, stored)
        if not wanted.updated:
            return None
        new = self._decoded(wanted)
        if any(_value(new, path) != _value(stored, path) for path in wanted.immutable):
            return _Change(wanted, new, exists=True, recreate=True)
        if _update(stored, new, wanted.updated):
            return _Change(wanted, stored, exists=True)
        return None

    def _reconciled(self, wanted: InitialObject, stored: Object) -> _Change | None:
        found = reconcile(self._names, stored, wanted.document)
        if found is None:
            return None
        new = self._decoded(wanted) if found.recreate else found.object
        return _Change(wanted, new, exists=True, recreate=found.recreate)

    def _decoded(self, wanted: InitialObject) -> Object:
        if wanted.reconciled:  # default roles and bindings are declared in decoded form
            return wanted.document
        return self._catalog.storage(wanted.type_name).schema.decode_object(wanted.document).object


def _key(wanted: InitialObject) -> tuple[str, str]:
    metadata = wanted.document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _update(stored: Object, new: Object, paths: tuple[str, ...]) -> bool:
    """Copy the new values at these paths into the stored object; return whether any differed."""
    changed = False
    for path in paths:
        *parents, name = path.split(".")
        old, wanted = stored, new
        for parent in parents:
            old, wanted = old[parent], wanted[parent]
        if old.get(name) != wanted.get(name):
            old[name] = wanted[name]
            changed = True
    return changed


def _value(document: Object, path: str) -> object:
    value: object = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


_AGGREGATION: Final = b'"aggregationRule":'


class Reconciled(msgspec.Struct, frozen=True):
    object: Object
    recreate: bool = False


def is_as_wanted(body: bytes, wanted: Object) -> bool:
    """Whether the stored bytes of an object contain everything wanted, so that it need not be parsed.

    They do unless a client changed it: most starts compare bytes only. Quotation marks in JSON strings are escaped,
    so the bytes of a member occur nowhere but in a member.
    """
    aggregated = "aggregationRule" in wanted
    if not aggregated and _AGGREGATION in body:
        return False
    members: list[tuple[str, object]] = [
        (name, value)
        for name, value in wanted.items()
        if value and name != "metadata" and not (aggregated and name == "rules")
    ]
    for field in ("labels", "annotations"):
        members.extend(wanted["metadata"][field].items())
    return all(dumps({name: value})[1:-1] in body for name, value in members)


def reconcile(names: Names, stored: Object, wanted: Object) -> Reconciled | None:
    """Return what a start changes in a stored default role or binding, or None if nothing is missing.

    As in v1.25, it adds missing rules, selectors, subjects, labels and annotations, and leaves all additions. An
    object with the annotation autoupdate "false" stays as it is. The roleRef of a binding cannot change: another one
    needs a new binding. Neither argument is changed.
    """
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(autoupdate_key(names)) == "false":
        return None
    new = {**stored, "metadata": _merged_metadata(stored["metadata"], wanted["metadata"])}
    if "roleRef" in wanted:
        if stored["roleRef"] != wanted["roleRef"]:
            return Reconciled(wanted, recreate=True)
        _add_subjects(new, wanted.get("subjects", ()))
    else:
        _add_rules(new, wanted)
        _reconcile_aggregation(new, wanted.get("aggregationRule"))
    return None if new == stored else Reconciled(new)


def _merged_metadata(stored: Object, wanted: Object) -> Object:
    merged = dict(stored)
    for field in ("labels", "annotations"):
        merged[field] = {**wanted[field], **(stored.get(field) or {})}
    return merged


def _add_subjects(new: Object, wanted: Sequence[Object]) -> None:
    subjects = new.get("subjects") or []
    missing = [one for one in wanted if one not in subjects]
    if missing:
        new["subjects"] = [*subjects, *missing]


def _add_rules(new: Object, wanted: Object) -> None:
    """Add missing rules. Aggregated roles get their rules from their controller."""
    rules = new.get("rules") or []
    if "aggregationRule" in wanted or rules == wanted["rules"]:
        return
    missing = list(uncovered(rules, wanted["rules"]))
    if missing:
        new["rules"] = [*rules, *missing]


def _reconcile_aggregation(new: Object, wanted: Object | None) -> None:
    if wanted is None:
        new.pop("aggregationRule", None)
        return
    selectors = (new.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    missing = [one for one in wanted["clusterRoleSelectors"] if one not in selectors]
    if missing:
        new["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *missing]}


async def create_namespace(
    names: Names, registry: Registry, directory: Directory, write_contexts: WriteContexts, name: str
) -> None:
    """Create a namespace with the rights of the server itself, for the admission plugin NamespaceAutoProvision.

    Raises the error with which the actor of namespaces refuses it, such as AlreadyExists.
    """
    definition = registry.current.storage("namespaces")
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    new = definition.schema.decode_object(document).object
    await Client(directory, write_contexts, SERVER_USER, names.server_manager).create(definition, "", new)
