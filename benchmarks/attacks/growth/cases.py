"""What a trial does for each size, and the cases of all kinds.

A case makes the requests of one size: those that `prepare`, which do not count, those that are measured, and the
objects to delete at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from benchmarks.attacks.growth.documents import Path, places_of
from benchmarks.attacks.growth.measured import VERSION
from benchmarks.attacks.growth.repairs import Repairs
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.fields import STRING, ListOf, MapOf, Type
from rewound.actors.names import NAMES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions

Document = dict[str, Any]

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
ELEMENTS: Final = (16, 64, 256, 1024, 4096, 16384, 65536)
CHARACTERS: Final = (4096, 16384, 65536, 262144, 1048576)
NUMBERS: Final = (16, 256, 4096, 65536, 1048576, 2**31 - 1)
# Kinds that controllers, the scheduler and nodes handle; others are tried on a server without nodes.
_HANDLED: Final = frozenset(
    {
        "pods",
        "deployments",
        "replicasets",
        "daemonsets",
        "statefulsets",
        "replicationcontrollers",
        "jobs",
        "cronjobs",
        "services",
        "endpointslices",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumes",
        "horizontalpodautoscalers",
        "poddisruptionbudgets",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
        "deviceclasses",
        "nodes",
        "priorityclasses",
        "networkpolicies",
        "resourcequotas",
        "limitranges",
        "namespaces",
        "serviceaccounts",
        "leases",
        "certificatesigningrequests",
    }
)
_REVIEWS: Final = ("reviews", "bindings")
# Requests about these stop the server, or everything else that is measured with it.
_LEFT_OUT: Final = frozenset(("apiservices", "componentstatuses", "bindings"))


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: Document | None = None
    kind: str = "json"
    accept: str = "application/json"
    admin: bool = False


class Size(msgspec.Struct, frozen=True):
    prepare: tuple[Request, ...]
    measured: tuple[Request, ...]
    watch: str = ""  # a collection


class Case(msgspec.Struct, frozen=True):
    name: str
    make: Callable[[int], Size]
    sizes: tuple[int, ...] = ELEMENTS
    target: str = "serve"  # or nodes, flight
    fits: bool = True  # the cost is compared for several sizes; numbers and depths are only bounded


@cache
def _catalog() -> Catalog:
    return built_in(NAMES["kubernetes"], choose_release(VERSION))


@cache
def _repairs() -> Repairs:
    return Repairs(Definitions(_catalog()))


@cache
def definitions() -> tuple[Definition, ...]:
    return tuple(each for each in _catalog().definitions if each.on_by_default)


def definition_of(plural: str) -> Definition:
    return next(each for each in definitions() if each.plural == plural)


def collection(definition: Definition) -> str:
    root = f"/apis/{definition.api_version}" if definition.group else "/api/v1"
    return (
        f"{root}/namespaces/default/{definition.plural}"
        if definition.namespaced
        else f"{root}/{definition.plural}"
    )


def objects(definition: Definition, document: Document, *, admin: bool | None = None) -> Size:
    """Write an object in every way, read it in every way, and delete it."""
    path = collection(definition)
    by_admin = not definition.namespaced if admin is None else admin
    document = {"apiVersion": definition.api_version, "kind": definition.kind, **document}
    if definition.plural.endswith(_REVIEWS):
        return Size((), (Request("POST", path, document, admin=by_admin),))
    name = f"{path}/{document['metadata']['name']}"
    labels = {"metadata": {"labels": {"growth": "changed"}}}
    metadata = {**document["metadata"]}
    metadata.pop("managedFields", None)
    requests = [
        Request("POST", path, document),
        Request("GET", name),
        Request("GET", f"{path}?labelSelector=growth%21%3Dx", accept=TABLE),
        Request("GET", f"{path}?fieldSelector=metadata.name%3Dgrowth"),
        Request("PATCH", name, labels, kind="merge-patch+json"),
        Request("PATCH", name, labels, kind="strategic-merge-patch+json"),
        Request("PUT", name, document),
        Request(
            "PATCH",
            f"{name}?fieldManager=a&force=true",
            {**document, "metadata": metadata},
            "apply-patch+yaml",
        ),
    ]
    if definition.has_status and "status" in document:
        requests.append(Request("PUT", f"{name}/status", document, admin=True))
    requests.append(Request("DELETE", f"{name}?gracePeriodSeconds=0"))
    if by_admin:
        requests = [msgspec.structs.replace(each, admin=True) for each in requests]
    return Size((), tuple(requests), watch=path)


def of_all_kinds() -> Iterator[Case]:
    for definition in definitions():
        if definition.plural in _LEFT_OUT:
            continue
        for path, type_ in places_of(definition.fields):
            if _is_repeated(definition, path):
                continue
            yield _growing(definition, type_, path)


def pairs_of(plural: str) -> Iterator[Case]:
    """Two lists of one kind that grow together."""
    definition = definition_of(plural)
    lists = [path for path, type_ in places_of(definition.fields) if isinstance(type_, (ListOf, MapOf))]
    lists = [path for path in lists if path[0] != "metadata" and not _is_repeated(definition, path)]
    for number, first in enumerate(lists):
        for second in lists[number + 1 :]:
            if first[: len(second)] != second and second[: len(first)] != first:
                yield _growing(definition, ListOf(STRING), first, second)


def _growing(definition: Definition, type_: Type, *paths: Path) -> Case:
    grows = isinstance(type_, (ListOf, MapOf))

    def make(count: int) -> Size:
        return objects(definition, _repairs().grown(definition, *paths, count=count))

    places = " x ".join(".".join(path) for path in paths)
    return Case(
        f"{definition.plural}.{definition.group}/{definition.version} {places}".replace("./", "/"),
        make,
        ELEMENTS if grows else CHARACTERS if type_ is STRING else NUMBERS,
        "nodes" if definition.plural in _HANDLED else "serve",
        fits=grows or type_ is STRING,
    )


def _is_repeated(definition: Definition, path: Path) -> bool:
    """All kinds share their metadata, workloads their template with pods, and containers of all sorts their fields."""
    if "ephemeralContainers" in path:
        return True
    if path[0] == "metadata":
        return definition.plural != "configmaps"
    return definition.plural != "deployments" and "template" in path[:-1] and path[0] == "spec"
