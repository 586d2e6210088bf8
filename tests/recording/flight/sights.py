"""Namespaces full of marked objects, users who may read parts of one of them, and requests of every form that a server
of a recording takes.

Each object has a marker of its own in its labels, its values and, where no other object names it, its name. `leaks`
finds the markers in a response that its user may not see, also inside base64; what the request itself contained does
not count.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from urllib.parse import quote, unquote

from tests.actors.object_store import Document
from tests.gateway.api import Api
from tests.recording.flight.flying import Flying

SHOP, BANK, MILL = NAMESPACES = ("shop", "bank", "mill")
RBAC: Final = "rbac.authorization.k8s.io"
ROOTS: Final = {
    "configmaps": "api/v1",
    "secrets": "api/v1",
    "pods": "api/v1",
    "services": "api/v1",
    "serviceaccounts": "api/v1",
    "events": "api/v1",
    "resourcequotas": "api/v1",
    "deployments.apps": "apis/apps/v1",
    "leases.coordination.k8s.io": "apis/coordination.k8s.io/v1",
    "widgets.example.com": "apis/example.com/v1",
    "events.events.k8s.io": "apis/events.k8s.io/v1",
    "namespaces": "api/v1",
    "nodes": "api/v1",
    "persistentvolumes": "api/v1",
}
CLUSTER_SCOPED: Final = ("namespaces", "nodes", "persistentvolumes")
NAMESPACED: Final = tuple(one for one in ROOTS if one not in CLUSTER_SCOPED)
MARKER: Final = re.compile(rb"mk\d{4}zz")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{12,}={0,2}")


@dataclass(frozen=True)
class Right:
    namespace: str  # empty: all of the cluster
    types: tuple[str, ...]
    names: tuple[str, ...] = ()  # empty: all

    def covers(self, one: Marked) -> bool:
        """Whether it covers an object."""
        where = not self.namespace or one.namespace == self.namespace
        return where and one.type in self.types and (not self.names or one.name in self.names)


BROAD: Final = (
    "configmaps",
    "secrets",
    "pods",
    "services",
    "events",
    "deployments.apps",
    "leases.coordination.k8s.io",
    "widgets.example.com",
)
USERS: Final[dict[str, tuple[Right, ...]]] = {
    "ann": (Right(SHOP, BROAD),),
    "bob": (Right(BANK, BROAD),),
    "carol": (Right(SHOP, ("configmaps",), ("settings",)),),
    "dave": (Right(MILL, ("pods",)),),
    "eve": (),
    "frank": (Right(SHOP, BROAD), Right("", ("nodes",))),
    "alice": (Right(SHOP, BROAD),),  # who signs in at the recording itself (tests.gateway.api)
}
TOKENS: Final = "".join(
    f'{name}-token,{name},{name},"{"system:masters" if name == "admin" else "team"}"\n'
    for name in ("admin", *USERS)
)


@dataclass(frozen=True)
class Marked:
    type: str
    namespace: str
    name: str


@dataclass
class World:
    """What a recorded cluster has, and what a client can know of it."""

    api: Api
    marked: dict[str, Marked] = field(default_factory=dict)  # by marker
    names: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # by type and namespace
    uids: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)  # of lists of others

    def mark(self, type_: str, namespace: str, name: str = "") -> str:
        marker = f"mk{len(self.marked):04d}zz"
        self.marked[marker] = Marked(type_, namespace, name or f"{type_[:2]}-{marker}")
        return marker

    async def create(self, type_: str, namespace: str, name: str = "", **content: Any) -> str:
        """Create an object, change it, and change it again; its name, by default with its marker."""
        marker = self.mark(type_, namespace, name)
        name = self.marked[marker].name
        self.names.setdefault((type_, namespace), []).append(name)
        metadata = {"name": name, "labels": {"mark": marker, "app": "web"}, **content.pop("metadata", {})}
        made = await self.api.ask("POST", path_of(type_, namespace), {"metadata": metadata, **content})
        self.uids.append(made.expect(201)["metadata"]["uid"])
        for number in range(2):
            annotations = {"note": f"{marker} {number}", f"at-{number}": "x"}
            await self.patch(type_, namespace, name, {"metadata": {"annotations": annotations}})
        return name

    async def patch(self, type_: str, namespace: str, name: str, body: Document, below: str = "") -> None:
        path = path_of(type_, namespace, name) + below
        headers = {"content-type": "application/merge-patch+json"}
        done = (await self.api.ask("PATCH", path, body, headers=headers)).expect(200)
        self.versions.append(done["metadata"]["resourceVersion"])

    def visible(self, user: str) -> frozenset[bytes]:
        rights = USERS.get(user, ())
        found = (marker for marker, one in self.marked.items() if any(right.covers(one) for right in rights))
        return frozenset(marker.encode() for marker in found)


def path_of(type_: str, namespace: str, name: str = "") -> str:
    """The path of a collection or an object; without a namespace, of all namespaces."""
    within = f"/namespaces/{namespace}" if namespace and type_ not in CLUSTER_SCOPED else ""
    return f"/{ROOTS[type_]}{within}/{type_.partition('.')[0]}" + (f"/{name}" if name else "")


# What the cluster has.


async def populate(api: Api) -> World:
    world = World(api)
    await _define_widgets(api)
    for name in ("node-0", "node-1"):
        await world.create("nodes", "", name)
    await world.create("persistentvolumes", "", spec=_VOLUME)
    for namespace in NAMESPACES:
        await world.create("namespaces", namespace, namespace)
        await _fill(world, namespace)
    for user, rights in USERS.items():
        for number, right in enumerate(rights):
            await grant(api, f"{user}-{number}", user, right)
    return world


async def _define_widgets(api: Api) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    body = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    (await api.ask("POST", definitions, body)).expect(201)


async def _fill(world: World, namespace: str) -> None:
    create = world.create
    for name in ("settings", "", "", ""):
        await create("configmaps", namespace, name, data={"key": f"{len(world.marked):04d}"})
    for name in ("credentials", ""):
        await create("secrets", namespace, name, stringData={"key": "hunter2"})
    await create("serviceaccounts", namespace)
    await create("resourcequotas", namespace, spec={"hard": {"pods": "50"}})
    await create("services", namespace, spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    labels = {"app": "web"}
    reads = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "credentials"}}]
    pod = {"containers": [{"name": "main", "image": "web:1", "envFrom": reads}], "nodeName": "node-0"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": pod["containers"]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await create("deployments.apps", namespace, "web", spec=spec)
    uid = world.uids[-1]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}
    for _ in range(3):
        name = await create("pods", namespace, metadata={"ownerReferences": [owner]}, spec=pod)
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name}
        said = {"type": "Warning", "reason": "BackOff", "message": "it ends again and again"}
        named = {"name": f"{name}.{world.mark('events', namespace)}"}
        body = {"metadata": named, "involvedObject": about, **said}
        (await world.api.ask("POST", path_of("events", namespace), body)).expect(201)
    await create("leases.coordination.k8s.io", namespace, spec={"holderIdentity": "one"})
    for _ in range(2):
        await create("widgets.example.com", namespace, apiVersion="example.com/v1", kind="Widget", spec={})


async def change(world: World, namespace: str) -> None:
    """A pod that crashes after a change of its ConfigMap, fields that two authors set, and a deleted object."""
    for name in world.names["configmaps", namespace]:
        await world.patch("configmaps", namespace, name, {"data": {"key": "later"}})
    await world.create("configmaps", namespace)
    waiting = {"reason": "CrashLoopBackOff", "message": f"{world.mark('pods', namespace)} back-off"}
    one = {"name": "main", "image": "web:1", "imageID": "", "ready": False, "restartCount": 3}
    status = {"phase": "Running", "containerStatuses": [{**one, "state": {"waiting": waiting}}]}
    world.api.clock.advance(10)
    for pod in world.names["pods", namespace]:
        await world.patch("pods", namespace, pod, {"status": status}, "/status")
    for number in range(6):
        path = path_of("deployments.apps", namespace, "web") + f"?fieldManager=m{number % 2}"
        body = {"spec": {"replicas": 2 + number % 2}}
        headers = {"content-type": "application/merge-patch+json"}
        (await world.api.ask("PATCH", path, body, headers=headers)).expect(200)
    gone = world.names["configmaps", namespace][-1]
    (await world.api.ask("DELETE", path_of("configmaps", namespace, gone))).expect(200)


_VOLUME: Final[Document] = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/data"},
}


def refused_lines(world: World, times: Sequence[int]) -> list[Document]:
    """Requests that the recorded cluster refused, as a file of the folder has them."""
    return [
        {
            "time": time,
            "user": "robot",
            "verb": "patch",
            "type": "pods",
            "namespace": namespace,
            "name": world.names["pods", namespace][0],
            "code": 422,
            "reason": "Invalid",
            "message": f"it must not be {world.mark('pods', namespace)}",
            "userAgent": "robot/1",
            "manager": "robot",
        }
        for namespace in NAMESPACES
        for time in times
    ]


async def grant(api: Api, name: str, user: str, right: Right) -> None:
    rules = [
        {
            "apiGroups": [one.partition(".")[2]],
            "resources": [one.partition(".")[0]],
            "verbs": ["get", "list", "watch"],
            **({"resourceNames": list(right.names)} if right.names else {}),
        }
        for one in right.types
    ]
    prefix = "" if right.namespace else "cluster"
    root = f"/apis/{RBAC}/v1" + (f"/namespaces/{right.namespace}" if right.namespace else "")
    (await api.ask("POST", f"{root}/{prefix}roles", {"metadata": {"name": name}, "rules": rules})).expect(201)
    kind = "Role" if right.namespace else "ClusterRole"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    (await api.ask("POST", f"{root}/{prefix}rolebindings", binding)).expect(201)


# Requests.


@dataclass(frozen=True)
class Request:
    path: str
    method: str = "GET"
    accept: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: Document | None = None
    websocket: bool = False

    @property
    def given(self) -> bytes:
        """Everything that the server may repeat."""
        return repr((unquote(self.path), self.path, self.headers, self.body)).encode()


_META: Final = "g=meta.k8s.io;v=v1"
_ACCEPTS: Final = (
    *("", "", "", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"),
    *(f"application/json;as=Table;{_META}", f"application/vnd.kubernetes.protobuf;as=Table;{_META}"),
    f"application/json;as=PartialObjectMetadataList;{_META}",
    f"application/json;as=PartialObjectMetadata;{_META}",
    *("application/cbor", "text/plain", "*/*;q=0.1"),
)
_PATHS: Final = (
    *("/metrics", "/metrics/slis", "/metrics/cadvisor", "/debug/rewound/flight", "/debug/rewound/replay"),
    *("/debug/rewound/clock", "/debug/rewound", "/debug/pprof/heap", "/debug/pprof", "/debug/journal/"),
    *("/debug/journal/../../metrics", "/debug/journal/%2e%2e/flight", "/debug/flags/v", "/configz", "/logs/"),
    *("/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1", "/journal/feed", "/journal"),
    *(
        "/debug/api_priority_and_fairness/dump_queues",
        "/statusz",
        "/flagz",
        "/livez?verbose",
        "/readyz?verbose",
    ),
    *(
        "/healthz/etcd",
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/",
        "/clusters/",
    ),
    *("/apis/rewound.cluster.io/v1", "/apis/rewound.cluster.io", "/apis/example.com/v1", "/access.log"),
    *("/refused.jsonl", "/gaps.jsonl", "/admin.kubeconfig", "/.well-known/openid-configuration"),
    *("/apis/rewound.cluster.io/v1/timeline/", "/apis/rewound.cluster.io/v1/timeline/types"),
)
_TIMELINES: Final = (
    "",
    "",
    "/events",
    "/events",
    "/objects",
    "/highlights",
    "/comparison",
    "/refused",
    "/gaps",
)


class Requests:
    """Random requests, the same ones for the same seed and world."""

    def __init__(self, world: World, seed: int, start: int, end: int) -> None:
        """`start` and `end`: times of the recording in seconds since 1970."""
        self._world, self._random, self._span = world, Random(seed), (start, end)
        self._rights: tuple[Right, ...] = ()  # of the user whose turn it is
        self._forms: dict[Callable[[], Request], int] = {
            self._list: 20,
            self._get: 12,
            self._watch: 4,
            self._websocket: 3,
            self._history: 16,
            self._timeline: 24,
            self._suspects: 6,
            self._path: 6,
            self._review: 3,
            self._write: 3,
            self._odd: 6,
        }

    def next(self, user: str) -> Request:
        """A request of a user: half of them are about what the user may read, or near it."""
        self._rights = USERS.get(user) or (Right(SHOP, BROAD),)
        (form,) = self._random.choices(list(self._forms), list(self._forms.values()))
        request = form()
        headers: list[tuple[str, str]] = list(request.headers)
        if self._chance(0.05):
            headers.append(self._one(_IDENTITIES))
        accept = request.accept or (self._one(_ACCEPTS) if self._chance(0.3) else "")
        return Request(request.path, request.method, accept, tuple(headers), request.body, request.websocket)

    def _one(self, of: Sequence[Any]) -> Any:
        return self._random.choice(of)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _where(self) -> str:
        if self._chance(0.5):
            return self._rights[0].namespace
        return str(self._one((*NAMESPACES, *NAMESPACES, "", "default", "none", "kube-system")))

    def _type(self) -> str:
        if self._chance(0.6):
            return str(self._one(self._one(self._rights).types))
        return str(self._one((*NAMESPACED, *NAMESPACED, *CLUSTER_SCOPED)))

    def _name(self, type_: str, namespace: str) -> str:
        """Mostly of an object that exists there; else of another type or namespace, a uid, or of none."""
        here = self._world.names.get((type_.replace("events.events.k8s.io", "events"), namespace))
        if here and self._chance(0.7):
            return str(self._one(here))
        others = [one for some in self._world.names.values() for one in some]
        return str(self._one((self._one(others), self._one(self._world.uids), "none", "settings")))

    def _version(self) -> str:
        newest = self._world.versions[-20:]  # since the recording began
        return str(self._one(newest if self._chance(0.7) else (*self._world.versions, "1", "0")))

    def _moment(self) -> str:
        if self._chance(0.5):
            return self._version()
        time = self._random.randint(*self._span)
        return str(self._one((_rfc3339(time), _rfc3339(time + 5), _rfc3339(self._span[0] - 60))))

    def _token(self) -> str:
        if self._chance(0.8):
            return str(self._one(self._world.tokens))
        forged = f'{{"v":{self._version()},"t":{self._span[1]}000000,"n":"{self._where()}","a":"a","r":5}}'
        return base64.urlsafe_b64encode(forged.encode()).decode().rstrip("=")

    def _query(self, **choices: tuple[float, Callable[[], str]]) -> str:
        pairs = [(name, make()) for name, (share, make) in choices.items() if self._chance(share)]
        return "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs) if pairs else ""

    def _fields(self) -> str:
        namespace = self._where()
        name = self._name("pods", namespace)
        return str(
            self._one(
                (
                    f"metadata.name={name}",
                    f"metadata.namespace={namespace}",
                    f"metadata.name=settings,metadata.name!={name}",
                    f"metadata.name=settings,metadata.namespace={namespace}",
                    f"involvedObject.name={name}",
                    "spec.nodeName=node-0",
                    f"metadata.name!={name}",
                )
            )
        )

    def _labels(self) -> str:
        marker = self._one(list(self._world.marked))
        return str(self._one(("app=web", "mark", "!mark", f"mark={marker}", f"mark notin ({marker})")))

    def _list(self) -> Request:
        query = self._query(
            limit=(0.4, lambda: str(self._random.randint(1, 5))),
            **{"continue": (0.25, self._token)},
            labelSelector=(0.2, self._labels),
            fieldSelector=(0.3, self._fields),
            at=(0.3, self._moment),
            resourceVersion=(0.15, self._version),
            resourceVersionMatch=(0.15, lambda: str(self._one(("Exact", "NotOlderThan")))),
            pretty=(0.05, lambda: "true"),
        )
        return Request(path_of(self._type(), self._where()) + query)

    def _get(self) -> Request:
        type_, namespace = self._type(), self._where()
        below = self._one(
            ("", "", "", "", "/status", "/scale", "/log", "/exec?command=a", "/proxy/", "/token")
        )
        query = (
            "" if "?" in below else self._query(at=(0.4, self._moment), resourceVersion=(0.1, self._version))
        )
        return Request(path_of(type_, namespace, self._name(type_, namespace)) + below + query)

    def _watch(self) -> Request:
        type_, namespace = self._type(), self._where()
        if self._chance(0.15):
            within = f"/namespaces/{namespace}" if namespace else ""
            path = f"/{ROOTS[type_]}/watch{within}/{type_.partition('.')[0]}?timeoutSeconds=1"
            return Request(path)
        query = self._query(
            watch=(1.0, lambda: "1"),
            timeoutSeconds=(1.0, lambda: "1"),
            resourceVersion=(0.7, self._version),
            fieldSelector=(0.3, self._fields),
            labelSelector=(0.2, self._labels),
            allowWatchBookmarks=(0.5, lambda: "true"),
            sendInitialEvents=(0.2, lambda: "true"),
            resourceVersionMatch=(0.2, lambda: "NotOlderThan"),
        )
        return Request(path_of(type_, namespace) + query)

    def _websocket(self) -> Request:
        request = self._watch()
        return Request(request.path, websocket=True)

    def _history(self) -> Request:
        type_, namespace = self._type(), self._where()
        within = f"namespaces/{namespace}/" if namespace and type_ not in CLUSTER_SCOPED else ""
        below = self._one(("history", "history", "blame"))
        query = self._query(
            limit=(0.2, lambda: "1"),
            to=(0.15, self._moment),
            changes=(0.3, lambda: "true"),
            uid=(0.15, lambda: str(self._one(self._world.uids))),
            diff=(0.2, lambda: f"{self._version()}..{self._one(('', self._version()))}"),
            at=(0.1, self._moment),
            **{"continue": (0.1, self._token)},
        )
        name = self._name(type_, namespace)
        return Request(f"/apis/rewound.cluster.io/v1/{within}{type_}/{name}/{below}{query}")

    def _timeline(self) -> Request:
        marker = str(self._one(list(self._world.marked)))
        below = str(self._one(_TIMELINES))
        versions = below in ("/events", "/comparison") and self._chance(0.5)
        query = self._query(
            type=(0.5, self._type),
            namespace=(0.7, lambda: self._where() or f"!{SHOP}"),
            **{
                "from": (0.9, self._version if versions else self._start),
                "to": (0.2, lambda: _rfc3339(self._span[1] + 60)),
            },
            name=(0.15, lambda: str(self._one(("*", "settings", f"*{marker}*", f"po-{marker}", "po-*")))),
            user=(0.1, lambda: str(self._one(("admin", "system:*", "robot", "!admin")))),
            manager=(0.05, lambda: str(self._one(("m0", "test", "*")))),
            verb=(0.1, lambda: str(self._one(("create", "patch", "delete")))),
            q=(0.25, lambda: str(self._one((marker, "mk", "settings", "web", '"back off"', "hunter2")))),
            status=(0.1, lambda: "false"),
            limit=(0.3, lambda: str(self._random.randint(1, 1000))),
            order=(0.2, lambda: "ascending"),
            contents=(0.3, lambda: "true"),
            before=(0.3, lambda: "true"),
            summary=(0.3, lambda: "true"),
            by=(0.3, lambda: str(self._one(("type", "namespace", "both")))),
            under=(0.1, lambda: str(self._one(self._world.uids))),
            roots=(0.1, lambda: "false"),
            wait=(0.03, lambda: "1"),
            **{"continue": (0.1, self._token)},
        )
        return Request(f"/apis/rewound.cluster.io/v1/timeline{below}{query}")

    def _start(self) -> str:
        return str(
            self._one((_rfc3339(self._span[0] - 60), _rfc3339(self._span[0]), _rfc3339(self._span[1] - 9)))
        )

    def _suspects(self) -> Request:
        type_ = str(
            self._one(("pods", "deployments.apps", "services", "configmaps", "nodes", "namespaces", "Pod"))
        )
        namespace = self._where()
        query = self._query(
            type=(1.0, lambda: type_),
            namespace=(0.95, lambda: namespace),
            name=(1.0, lambda: self._name(type_, namespace)),
            since=(0.3, self._moment),
            at=(0.3, self._moment),
        )
        return Request(f"/apis/rewound.cluster.io/v1/timeline/suspects{query}")

    def _path(self) -> Request:
        return Request(str(self._one(_PATHS)))

    def _review(self) -> Request:
        namespace, group = self._where(), "authorization.k8s.io"
        asked = {"namespace": namespace, "verb": "list", "resource": "secrets"}
        kind, path, spec = self._one(
            (
                ("SelfSubjectAccessReview", "selfsubjectaccessreviews", {"resourceAttributes": asked}),
                ("SelfSubjectRulesReview", "selfsubjectrulesreviews", {"namespace": namespace}),
                ("SubjectAccessReview", "subjectaccessreviews", {"resourceAttributes": asked, "user": "bob"}),
            )
        )
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        return Request(f"/apis/{group}/v1/{path}", "POST", body=body)

    def _write(self) -> Request:
        type_, namespace = self._type(), self._where()
        name, method = (
            self._name(type_, namespace),
            str(self._one(("DELETE", "PUT", "POST", "PATCH", "DELETE"))),
        )
        below = self._one(("?dryRun=All", "", "/rollback", "/undelete"))
        body: Document = {"metadata": {"name": name}}
        if below.startswith("/"):
            within = f"namespaces/{namespace}/" if namespace else ""
            path = f"/apis/rewound.cluster.io/v1/{within}{type_}/{name}{below}"
            return Request(path, "POST", body={"to": self._version()})
        path = path_of(type_, namespace, "" if method == "POST" else name)
        headers = (("content-type", "application/merge-patch+json"),) if method == "PATCH" else ()
        return Request(path + below, method, headers=headers, body=None if method == "DELETE" else body)

    def _odd(self) -> Request:
        """Paths that a careless router could take for another namespace."""
        other = self._one(NAMESPACES)
        type_ = str(self._one(("configmaps", "pods", "secrets")))
        name = self._name(type_, other)
        return Request(
            str(
                self._one(
                    (
                        f"/api/v1/namespaces/{SHOP}/../{other}/{type_}",
                        f"/api/v1/namespaces/{SHOP}%2f..%2f{other}/{type_}",
                        f"/api/v1/namespaces/{SHOP}/{type_}/..%2f..%2f{other}%2f{type_}%2f{name}",
                        f"/api/v1/namespaces//{type_}",
                        f"/api/v1//namespaces/{other}/{type_}",
                        f"/api/v1/namespaces/{other}%00/{type_}",
                        f"/api/v1/namespaces/{other.upper()}/{type_}",
                        f"/api/v1/namespaces/{other}/{type_}/",
                        f"/api/v1/namespaces/{SHOP}/{type_}?namespace={other}",
                        f"/api/v1/namespaces/{SHOP}/{type_}?at={self._version()}&at={self._version()}",
                        f"/api/v1/namespaces/{SHOP}/{type_}/{name}/history",
                        f"/apis/rewound.cluster.io/v1/{type_}/{name}/history",
                        f"/apis/rewound.cluster.io/v1/namespaces/{SHOP}/v1.{type_}/{name}/history",
                        f"/apis/rewound.cluster.io/v1/namespaces/{SHOP}/nodes/node-0/history",
                        f"/apis/rewound.cluster.io/v1/namespaces/{SHOP}/namespaces/{other}/history",
                        f"/apis/rewound.cluster.io/v1/timeline/events?namespace={SHOP}&namespace={other}",
                        f"/apis/rewound.cluster.io/v1/timeline/objects?namespace={SHOP}&namespace=%21{other}",
                        f"/apis/rewound.cluster.io/v1/timeline/events?namespace={SHOP}*",
                        f"/apis/apps/v1/namespaces/{SHOP}/deployments/web/scale?at={self._version()}",
                        f"/api/v1/namespaces/{other}/status",
                        f"/api/v1/namespaces/{other}?at={self._version()}",
                    )
                )
            )
        )


_IDENTITIES: Final = (
    ("Impersonate-User", "admin"),
    ("Impersonate-User", "bob"),
    ("Impersonate-Group", "system:masters"),
    ("X-Remote-User", "admin"),
    ("X-Remote-Group", "system:masters"),
    ("X-Forwarded-User", "admin"),
)


def _rfc3339(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def harvest(world: World, one: Flying) -> None:
    """Continue tokens of lists, histories and timelines of an administrator of the recording."""
    for namespace in ("", *NAMESPACES):
        paths = [
            path_of(type_, namespace) for type_ in ("configmaps", "pods", "widgets.example.com", "events")
        ]
        timeline = "/apis/rewound.cluster.io/v1/timeline"
        where = f"&namespace={namespace}" if namespace else ""
        paths += [f"{path}?at={world.versions[-1]}" for path in paths]
        paths += [
            f"{timeline}/{name}?x=1{where}" for name in ("events", "objects", f"comparison?from=1{where}")
        ]
        paths += [f"/apis/rewound.cluster.io/v1/namespaces/{namespace or SHOP}/configmaps/settings/history"]
        for path in paths:
            found = await one.api.ask("GET", f"{path}{'&' if '?' in path else '?'}limit=1")
            if found.status == 200 and (token := found.document["metadata"].get("continue")):
                world.tokens.append(token)
    assert len(world.tokens) > 20


# Answers.


def leaks(body: bytes, request: Request, visible: frozenset[bytes]) -> set[bytes]:
    """The markers of a response that its user may not see."""
    found = set(MARKER.findall(body))
    for text in _BASE64.findall(body):
        found |= set(MARKER.findall(_decoded(text)))
    return found - visible - set(MARKER.findall(request.given)) - set(MARKER.findall(_decoded_all(request)))


def _decoded(text: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(text.rstrip(b"=").translate(_URL_SAFE) + b"==")
    except binascii.Error:
        return b""


def _decoded_all(request: Request) -> bytes:
    return b" ".join(_decoded(text) for text in _BASE64.findall(request.given))


_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
