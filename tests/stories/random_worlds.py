"""Stories that chance writes: a seed gives nodes, objects and what happens to them.

    story = random_world("place", 17, "1.36")

They have no recorded states; `python -m tests.stories record` adds those of a real cluster, `play` compares
(docs/workloads.md). A world is made so that Kubernetes itself would come to rest in the same state twice: nodes differ
in size, so that one of them is the best; pods are created one by one; and the node of a pod is part of the state only
where the scheduler is what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

Object = dict[str, Any]

_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"
_DRIVER = "gpu.example.com"
_APPS = ("a", "b", "c")
_PRIORITIES = (0, 5, 10, 20, 40, 100, 400)


def random_world(family: str, seed: int, version: str) -> Object:
    """One of `FAMILIES`, for a version of Kubernetes; the same arguments give the same world."""
    world = _World(Random(f"{family}/{seed}"), f"{family}-{seed}", int(version.split(".")[1]))
    FAMILIES[family](world)
    return world.story()


class _World:
    def __init__(self, random: Random, name: str, minor: int) -> None:
        self.random = random
        self.name = name
        self.minor = minor
        self.nodes: list[Object] = []
        self.steps: list[Object] = []
        self.pods: list[str] = []
        self.named = 0  # nodes
        self.points = 0
        self.exact_nodes = True
        self.loose: list[str] = []

    def story(self) -> Object:
        story: Object = {
            "id": self.name,
            "title": f"random world {self.name}",
            "controllers": ["*"],
            "steps": self.steps,
            "nodes": self.nodes,
            "exclusive": True,
        }
        return story | ({"exactNodes": True} if self.exact_nodes else {"looseNodes": True})

    # Chance.

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one_of(self, several: Iterable[Any]) -> Any:
        return self.random.choice(list(several))

    def some_of(self, several: Iterable[Any], most: int) -> list[Any]:
        several = list(several)
        return self.random.sample(several, self.random.randint(1, min(most, len(several))))

    # Steps.

    def do(self, what: str, **fields: Any) -> None:
        self.steps.append({"do": what, **fields})

    def create(self, kind: str, name: str, **fields: Any) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}
        self.do(
            "create", object={"apiVersion": _API_VERSIONS[kind], "kind": kind, "metadata": metadata, **fields}
        )

    def patch(self, kind: str, name: str, patch: Any, **fields: Any) -> None:
        self.do("patch", kind=kind, name=name, patch=patch, **fields)

    def settle(self, *until: Object, **fields: Any) -> None:
        self.points += 1
        self.do("settle", name=f"s{self.points}", until=list(until), **fields)
        if self.points == 1 and self.loose:
            self.steps[-1]["loose"] = self.loose

    # Nodes.

    def add_nodes(self, least: int, most: int, *, tight: bool = False) -> None:
        for _ in range(self.random.randint(least, most)):
            self.nodes.append(self.node(tight=tight))

    def node_name(self) -> str:
        """No world has the node of another: controllers may still remember that."""
        self.named += 1
        return f"n{self.named}-{self.name}"

    def node(self, *, tight: bool = False) -> Object:
        random = self.random
        name = self.node_name()
        cpu = random.randint(10, 22 if tight else 42) * 100 + random.randint(0, 9) * 10
        node: Object = {"name": name, "cpu": f"{cpu}m", "memory": f"{random.randint(900, 7000)}Mi"}
        labels: Object = {"rank": str(random.randint(1, 9))}
        if self.chance(0.85):
            labels[_ZONE] = self.one_of(("z1", "z2", "z3"))
        if self.chance(0.6):
            labels["disk"] = self.one_of(("ssd", "hdd"))
        node["labels"] = labels
        if self.chance(0.2):
            node["taints"] = [self.taint() for _ in range(random.randint(1, 2))][
                : 1 if self.chance(0.7) else 2
            ]
            if len({(one["key"], one["effect"]) for one in node["taints"]}) < len(node["taints"]):
                node["taints"] = node["taints"][:1]
        if self.chance(0.07):
            node["unschedulable"] = True
        if self.chance(0.15):
            node["pods"] = str(random.randint(1, 4))
        return node

    def taint(self) -> Object:
        taint: Object = {"key": self.one_of(("dedicated", "flaky")), "effect": self.one_of(_EFFECTS)}
        return taint | ({"value": self.one_of(("x", "y"))} if self.chance(0.6) else {})

    def priorities(self) -> None:
        for value in _PRIORITIES[1:]:
            fields: Object = {"value": value}
            if value == 40:
                fields["preemptionPolicy"] = "Never"
            self.create("PriorityClass", f"p{value}-{{{{ns}}}}", **fields)

    # Pods.

    def requests(self, *, large: bool = False) -> Object:
        random = self.random
        requests: Object = {}
        if large or self.chance(0.85):
            requests["cpu"] = f"{random.randint(40, 130) if large else random.randint(5, 90)}0m"
        if self.chance(0.5):
            requests["memory"] = f"{random.randint(64, 1500)}Mi"
        if self.chance(0.05):
            requests["ephemeral-storage"] = f"{random.randint(1, 60)}Gi"
        return requests

    def selector(self) -> Object:
        if self.chance(0.75):
            return {"matchLabels": {"app": self.one_of(_APPS)}}
        operator = self.one_of(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": self.some_of(_APPS, 2)} if operator in ("In", "NotIn") else {}
        return {"matchExpressions": [{"key": self.one_of(("app", "tier")), "operator": operator, **values}]}

    def node_term(self) -> Object:
        def expression() -> Object:
            key = self.one_of(("disk", _ZONE, "rank"))
            if key == "rank":
                return {
                    "key": key,
                    "operator": self.one_of(("Gt", "Lt")),
                    "values": [str(self.random.randint(2, 8))],
                }
            operator = self.one_of(("In", "NotIn", "Exists", "DoesNotExist"))
            values = {"disk": ("ssd", "hdd"), _ZONE: ("z1", "z2", "z3")}[key]
            several = {"values": self.some_of(values, 2)} if operator in ("In", "NotIn") else {}
            return {"key": key, "operator": operator, **several}

        if self.nodes and self.chance(0.15):
            name = self.one_of(self.nodes)["name"]
            operator = self.one_of(("In", "NotIn"))
            return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}
        return {"matchExpressions": [expression() for _ in range(1 if self.chance(0.7) else 2)]}

    def pod_term(self) -> Object:
        term: Object = {
            "labelSelector": self.selector(),
            "topologyKey": self.one_of((_HOST, _ZONE, _ZONE, "disk")),
        }
        if self.minor >= 31 and self.chance(0.1):
            term[self.one_of(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
            term["labelSelector"] = {"matchLabels": {"app": self.one_of(_APPS)}}
        if self.chance(0.08):
            term["namespaceSelector"] = {}
        return term

    def affinity(self, *, scale: float = 1.0) -> Object:
        affinity: Object = {}

        def add(kind: str, when: str, terms: list[Object]) -> None:
            affinity.setdefault(kind, {})[f"{when}DuringSchedulingIgnoredDuringExecution"] = terms

        weight = self.random.randint
        if self.chance(0.12 * scale):
            terms = [self.node_term() for _ in range(1 if self.chance(0.7) else 2)]
            add("nodeAffinity", "required", terms)
            when = "requiredDuringSchedulingIgnoredDuringExecution"
            affinity["nodeAffinity"][when] = {"nodeSelectorTerms": terms}
        if self.chance(0.2 * scale):
            preferred = [
                {"weight": weight(1, 100), "preference": self._expressions()} for _ in range(weight(1, 3))
            ]
            add("nodeAffinity", "preferred", preferred)
        for kind, required, preferred_chance in (("podAffinity", 0.1, 0.15), ("podAntiAffinity", 0.15, 0.15)):
            if self.chance(required * scale):
                add(kind, "required", [self.pod_term() for _ in range(1 if self.chance(0.8) else 2)])
            if self.chance(preferred_chance * scale):
                terms = [
                    {"weight": weight(1, 100), "podAffinityTerm": self.pod_term()}
                    for _ in range(weight(1, 2))
                ]
                add(kind, "preferred", terms)
        return affinity

    def _expressions(self) -> Object:
        while "matchFields" in (term := self.node_term()):
            pass
        return term

    def spread(self) -> list[Object]:
        constraints: list[Object] = []
        for key in self.some_of((_HOST, _ZONE, "disk"), 2):
            hard = self.chance(0.55)
            constraint: Object = {
                "topologyKey": key,
                "maxSkew": self.random.choice((1, 1, 2)),
                "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
                "labelSelector": self.selector(),
            }
            if self.minor >= 27:
                if hard and self.chance(0.2):
                    constraint["minDomains"] = self.random.randint(1, 4)
                if self.chance(0.2):
                    constraint["nodeTaintsPolicy"] = self.one_of(("Honor", "Ignore"))
                if self.chance(0.2):
                    constraint["nodeAffinityPolicy"] = self.one_of(("Honor", "Ignore"))
                if self.chance(0.1):
                    constraint["matchLabelKeys"] = ["tier"]
            constraints.append(constraint)
        return constraints

    def pod_spec(self, *, scale: float = 1.0, large: bool = False) -> Object:
        random = self.random
        container: Object = {"name": "c", "image": "c:1"}
        if requests := self.requests(large=large):
            container["resources"] = {"requests": requests}
        if self.chance(0.1 * scale):
            container["ports"] = [
                {"containerPort": 80, "hostPort": random.choice((80, 81)), "protocol": "TCP"}
            ]
            if self.chance(0.3):
                container["ports"][0]["hostIP"] = "127.0.0.1"
        spec: Object = {"containers": [container]}
        if self.chance(0.1 * scale):
            first: Object = {"name": "i", "image": "i:1", "resources": {"requests": self.requests()}}
            if self.minor >= 29 and self.chance(0.5):
                first["restartPolicy"] = "Always"
            spec["initContainers"] = [first]
        if self.minor >= 34 and self.chance(0.08 * scale):
            spec["resources"] = {"requests": {"cpu": f"{random.randint(90, 160)}0m", "memory": "2Gi"}}
            for one in (*spec["containers"], *spec.get("initContainers", ())):
                one.pop("resources", None)
        if self.chance(0.1 * scale):
            spec["nodeSelector"] = {"disk": self.one_of(("ssd", "hdd"))}
        if self.chance(0.3 * scale):
            spec["tolerations"] = [self.toleration() for _ in range(random.randint(1, 2))]
        if affinity := self.affinity(scale=scale):
            spec["affinity"] = affinity
        if self.chance(0.25 * scale):
            spec["topologySpreadConstraints"] = self.spread()
        return spec

    def toleration(self) -> Object:
        if self.chance(0.1):
            return {"operator": "Exists"}
        toleration: Object = {"key": self.one_of(("dedicated", "flaky"))}
        if self.chance(0.5):
            toleration["operator"] = "Exists"
        else:
            toleration["value"] = self.one_of(("x", "y"))
        return toleration | ({"effect": self.one_of(_EFFECTS)} if self.chance(0.4) else {})

    def add_pod(self, spec: Object, *, priority: int = 0, gated: bool = False, decided: bool = True) -> str:
        name = f"p{len(self.pods)}"
        self.pods.append(name)
        labels = {"app": self.one_of(_APPS)} | ({"tier": self.one_of(("x", "y"))} if self.chance(0.4) else {})
        if priority:
            spec = {**spec, "priorityClassName": f"p{priority}-{{{{ns}}}}"}
        if gated:
            spec = {**spec, "schedulingGates": [{"name": "example.com/gate"}]}
        self.create("Pod", name, metadata={"labels": labels}, spec=spec)
        if decided:
            self.do("wait", until=[_decided(name)], timeout=20)
        return name


def _decided(name: str) -> Object:
    """The scheduler has found a node for a pod, or none."""
    return {
        "kind": "Pod",
        "name": name,
        "path": "status.conditions.PodScheduled.type",
        "value": "PodScheduled",
    }


_EFFECTS = ("NoSchedule", "NoSchedule", "PreferNoSchedule")
_API_VERSIONS = {
    **dict.fromkeys(("Pod", "Service", "ResourceQuota", "ConfigMap"), "v1"),
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), "apps/v1"),
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    **dict.fromkeys(
        ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"), "resource.k8s.io/v1"
    ),
}


# Families.


def _place(world: _World) -> None:
    """Pods find nodes, by all that they may ask for, and others when something changes."""
    world.add_nodes(3, 6)
    for _ in range(world.random.randint(5, 11)):
        world.add_pod(world.pod_spec(), gated=world.minor >= 30 and world.chance(0.05))
    world.settle()
    for _ in range(world.random.randint(1, 3)):
        _change(world)
        world.settle()


def _change(world: _World) -> None:
    node = world.one_of(world.nodes)["name"]
    pod = world.one_of(world.pods)
    match world.random.randrange(9):
        case 0 | 1:
            world.do("delete", kind="Pod", name=pod, mayFail=True)
        case 2:
            world.do("node-add", node=world.node())
        case 3:
            world.patch("Node", node, {"spec": {"unschedulable": world.chance(0.5)}})
        case 4:
            world.patch("Node", node, {"spec": {"taints": [world.taint()] if world.chance(0.3) else None}})
        case 5:
            label = world.one_of(("disk", _ZONE, "rank"))
            value = {"disk": "ssd", _ZONE: "z2", "rank": "5"}[label]
            world.patch("Node", node, {"metadata": {"labels": {label: value if world.chance(0.8) else None}}})
        case 6:
            cpu = f"{world.random.randint(20, 60)}00m"
            world.patch("Node", node, {"status": {"allocatable": {"cpu": cpu}}}, subresource="status")
        case 7:
            patch = {"metadata": {"labels": {"app": world.one_of(_APPS)}}}
            world.patch("Pod", pod, patch, mayFail=True)
        case _:
            world.add_pod(world.pod_spec())
    if world.chance(0.3):
        world.add_pod(world.pod_spec())


def _preempt(world: _World) -> None:
    """Pods of higher priority take the place of others, with budgets in between."""
    world.priorities()
    world.add_nodes(1, 4, tight=True)
    for one in world.nodes:
        one.pop("unschedulable", None)
    for number in range(world.random.randint(0, 2)):
        budget: Object = {"selector": world.selector()}
        budget[world.one_of(("minAvailable", "maxUnavailable"))] = world.random.randint(0, 2)
        world.create("PodDisruptionBudget", f"b{number}", spec=budget)
    for _ in range(world.random.randint(3, 9)):
        world.add_pod(
            world.pod_spec(scale=0.3, large=world.chance(0.5)), priority=world.one_of(_PRIORITIES[:4])
        )
    world.settle()
    for _ in range(world.random.randint(1, 3)):
        world.add_pod(world.pod_spec(scale=0.7, large=True), priority=world.one_of(_PRIORITIES[3:]))
        if world.chance(0.7):
            world.settle()
    if world.chance(0.5):
        _change(world)
    world.settle()


def _devices(world: _World) -> None:
    """Claims get devices of nodes: by selectors, counts, constraints, lists, taints and capacity."""
    random = world.random
    world.add_nodes(2, 4)
    for one in world.nodes:
        one.pop("taints", None)
        one.pop("unschedulable", None)
        one.pop("pods", None)
    of_driver = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    world.create("DeviceClass", "any-{{ns}}", spec={"selectors": [of_driver]})
    large = {"cel": {"expression": f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("8Gi")) >= 0'}}
    world.create("DeviceClass", "large-{{ns}}", spec={"selectors": [of_driver, large]})
    for number, node in enumerate(world.nodes):
        if world.chance(0.85):
            devices = [_device(world, index) for index in range(random.randint(1, 4))]
            pool = {"name": f"{number}-{{{{ns}}}}", "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": _DRIVER, "nodeName": node["name"], "pool": pool, "devices": devices}
            world.create("ResourceSlice", f"s{number}-{{{{ns}}}}", spec=spec)
    for claims in range(1, random.randint(3, 7)):
        shared = claims > 1 and world.chance(0.15)
        name = f"c{random.randint(1, claims - 1) if shared else claims}"
        if world.chance(0.3) and not shared:
            world.create("ResourceClaimTemplate", name, spec={"spec": {"devices": _claim(world)}})
            source = {"resourceClaimTemplateName": name}
        else:
            if not shared:
                world.create("ResourceClaim", name, spec={"devices": _claim(world)})
            source = {"resourceClaimName": name}
        spec = world.pod_spec(scale=0.15)
        spec.pop("resources", None)
        spec["resourceClaims"] = [{"name": "d", **source}]
        spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": "d"}]
        world.add_pod(spec)
    world.settle()
    for _ in range(random.randint(1, 2)):
        if world.chance(0.6):
            world.do("delete", kind="Pod", name=world.one_of(world.pods), mayFail=True)
        else:
            number = len(world.nodes) + 1
            pool = {"name": f"{number}-{{{{ns}}}}", "generation": 1, "resourceSliceCount": 1}
            node = world.one_of(world.nodes)["name"]
            spec = {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": [_device(world, 0)]}
            world.create("ResourceSlice", f"t{world.points}-{{{{ns}}}}", spec=spec)
        world.settle()


def _device(world: _World, index: int) -> Object:
    attributes: Object = {
        "model": {"string": world.one_of(("m1", "m2"))},
        "numa": {"int": world.random.randint(0, 1)},
    }
    if world.chance(0.2):
        attributes["beta"] = {"bool": world.chance(0.5)}
    size = world.random.choice(("4Gi", "8Gi", "16Gi"))
    device: Object = {"name": f"d{index}", "attributes": attributes, "capacity": {"memory": {"value": size}}}
    return device


def _claim(world: _World) -> Object:
    def exactly() -> Object:
        request: Object = {"deviceClassName": world.one_of(("any-{{ns}}", "any-{{ns}}", "large-{{ns}}"))}
        if world.chance(0.4):
            text = world.one_of(
                (
                    f'device.attributes["{_DRIVER}"].model == "{world.one_of(("m1", "m2"))}"',
                    f'device.attributes["{_DRIVER}"].numa == {world.random.randint(0, 1)}',
                    f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("16Gi")) < 0',
                    f'has(device.attributes["{_DRIVER}"].beta) && device.attributes["{_DRIVER}"].beta',
                )
            )
            request["selectors"] = [{"cel": {"expression": text}}]
        if world.chance(0.12):
            request["allocationMode"] = "All"
        elif world.chance(0.4):
            request |= {"allocationMode": "ExactCount", "count": world.random.randint(1, 3)}
        return request

    requests: list[Object] = []
    for number in range(world.random.choice((1, 1, 1, 2))):
        if world.chance(0.2):
            several = [{"name": f"s{index}", **exactly()} for index in range(world.random.randint(1, 3))]
            requests.append({"name": f"r{number}", "firstAvailable": several})
        else:
            requests.append({"name": f"r{number}", "exactly": exactly()})
    claim: Object = {"requests": requests}
    if world.chance(0.25):
        attribute = f"{_DRIVER}/{world.one_of(('model', 'numa'))}"
        claim["constraints"] = [{"matchAttribute": attribute}]
    return claim


def _workloads(world: _World) -> None:
    """Deployments, sets, Jobs, Services and budgets, and what users do to them."""
    random = world.random
    world.exact_nodes = False
    # How many steps a rollout takes depends on how fast pods become ready.
    world.loose = ["ScalingReplicaSet"]
    world.nodes = [{"name": world.node_name()} for _ in range(3)]
    made: list[_Owner] = []
    for number, make in enumerate(random.choices(_MAKERS, k=random.randint(1, 3))):
        made.append(make(world, f"w{number}"))
    if world.chance(0.4):
        owner = world.one_of(made)
        spec: Object = {"selector": {"app": owner.name}, "ports": [{"port": 80, "targetPort": 8080}]}
        if world.chance(0.3):
            spec["clusterIP"] = "None"
        if world.chance(0.2):
            spec["publishNotReadyAddresses"] = True
        world.create("Service", f"{owner.name}-s", spec=spec)
    if world.chance(0.3):
        owner = world.one_of(made)
        budget: Object = {"selector": {"matchLabels": {"app": owner.name}}}
        budget[world.one_of(("minAvailable", "maxUnavailable"))] = world.one_of((0, 1, 2, "40%", "50%"))
        if world.minor >= 27 and world.chance(0.3):
            budget["unhealthyPodEvictionPolicy"] = world.one_of(("AlwaysAllow", "IfHealthyBudget"))
        world.create("PodDisruptionBudget", f"{owner.name}-b", spec=budget)
    world.settle(hold=max(one.hold for one in made))
    for _ in range(random.randint(2, 5)):
        owner = world.one_of(made)
        if owner.changes:
            world.one_of(owner.changes)()
        else:
            _any_change(world, owner)
        world.settle(hold=max(one.hold for one in made))


class _Owner:
    """An object with pods, and what may happen to it."""

    def __init__(self, kind: str, name: str, changes: Iterable[Callable[[], None]], hold: float = 0) -> None:
        self.kind, self.name, self.changes, self.hold = kind, name, list(changes), hold


def _any_change(world: _World, owner: _Owner) -> None:
    labels = {"app": owner.name}
    match world.random.randrange(3):
        case 0:
            world.do("delete-pods", select={"labels": labels, "count": 1}, mayFail=True)
        case 1:
            world.do("evict", select={"labels": labels, "count": 1}, mayFail=True)
        case _:
            patch = {"metadata": {"labels": {"app": "other"}}}
            world.do("mark", select={"labels": labels, "count": 1}, patch=patch, mayFail=True)


def _template(world: _World, name: str, **annotations: str) -> Object:
    container: Object = {"name": "c", "image": "app:1"}
    if world.chance(0.4):
        container["ports"] = [{"containerPort": 8080, "name": "http"}]
    if world.chance(0.3):
        container["resources"] = {"requests": {"cpu": "50m"}}
    metadata: Object = {"labels": {"app": name}} | ({"annotations": annotations} if annotations else {})
    spec: Object = {"containers": [container]}
    if world.chance(0.2):
        spec["terminationGracePeriodSeconds"] = world.random.choice((0, 5, 60))
    return {"metadata": metadata, "spec": spec}


def _phase(world: _World) -> dict[str, str]:
    """Most pods become ready."""
    phase = world.random.choice(("Running",) * 5 + ("NeverReady", "CrashLoop", "ImagePull", "Hold"))
    return {} if phase == "Running" else {"sim/phase": phase}


def _common_changes(world: _World, kind: str, name: str) -> list[Callable[[], None]]:
    random = world.random

    def in_template(patch: Object) -> None:
        world.patch(kind, name, {"spec": {"template": patch}})

    def image() -> None:
        in_template({"spec": {"containers": [{"name": "c", "image": f"app:{random.randint(1, 3)}"}]}})

    def phase() -> None:
        wanted = world.one_of(("Running", "NeverReady", "ImagePull", "Hold"))
        in_template({"metadata": {"annotations": {"sim/phase": wanted}}})

    def remove() -> None:
        propagation = world.one_of(("Background", "Foreground", "Orphan"))
        world.do("delete", kind=kind, name=name, propagation=propagation, mayFail=True)

    def pods() -> None:
        _any_change(world, _Owner(kind, name, ()))

    def ready() -> None:
        wanted = world.one_of(("NeverReady", "CrashLoop", "Running"))
        patch = {"metadata": {"annotations": {"sim/phase": wanted}}}
        world.do("mark", select={"labels": {"app": name}, "count": 1}, patch=patch, mayFail=True)

    return [image, image, phase, remove, pods, pods, ready]


def _scale(world: _World, kind: str, name: str, most: int = 5) -> Callable[[], None]:
    def scale() -> None:
        world.do("scale", kind=kind, name=name, replicas=world.random.randint(0, most), mayFail=True)

    return scale


def _deployment(world: _World, name: str) -> _Owner:
    random = world.random
    spec: Object = {
        "replicas": random.randint(0, 4),
        "selector": {"matchLabels": {"app": name}},
        "template": _template(world, name, **_phase(world)),
    }
    if world.chance(0.25):
        spec["strategy"] = {"type": "Recreate"}
    elif world.chance(0.6):
        surge = world.one_of((1, 2, "50%"))
        unavailable = world.one_of((0, 1, "34%"))
        spec["strategy"] = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    if world.chance(0.3):
        spec["revisionHistoryLimit"] = random.randint(0, 2)
    if world.chance(0.15):
        spec["minReadySeconds"] = random.randint(1, 2)
    if world.chance(0.1):
        spec["paused"] = True
    world.create("Deployment", name, spec=spec)

    def pause() -> None:
        world.patch("Deployment", name, {"spec": {"paused": world.chance(0.5)}})

    def limit() -> None:
        world.patch("Deployment", name, {"spec": {"revisionHistoryLimit": random.randint(0, 2)}})

    common = _common_changes(world, "Deployment", name)
    scale = _scale(world, "Deployment", name)
    return _Owner("Deployment", name, [*common, scale, scale, scale, pause, limit], hold=3)


def _replica_set(world: _World, name: str) -> _Owner:
    spec = {
        "replicas": world.random.randint(0, 4),
        "selector": {"matchLabels": {"app": name}},
        "template": _template(world, name, **_phase(world)),
    }
    world.create("ReplicaSet", name, spec=spec)
    common = _common_changes(world, "ReplicaSet", name)
    scale = _scale(world, "ReplicaSet", name)
    return _Owner("ReplicaSet", name, [*common, scale, scale])


def _stateful_set(world: _World, name: str) -> _Owner:
    random = world.random
    spec: Object = {
        "replicas": random.randint(0, 3),
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": _template(world, name, **_phase(world)),
    }
    if world.chance(0.4):
        spec["podManagementPolicy"] = "Parallel"
    if world.chance(0.3):
        spec["updateStrategy"] = {"type": "OnDelete"}
    elif world.chance(0.4):
        spec["updateStrategy"] = {"rollingUpdate": {"partition": random.randint(0, 3)}}
    if world.minor >= 31 and world.chance(0.2):
        spec["ordinals"] = {"start": random.randint(1, 3)}
    if world.chance(0.15):
        spec["minReadySeconds"] = 1
    if world.chance(0.2):
        spec["revisionHistoryLimit"] = random.randint(0, 2)
    world.create("StatefulSet", name, spec=spec)

    def partition() -> None:
        patch = {"type": "RollingUpdate", "rollingUpdate": {"partition": random.randint(0, 3)}}
        world.patch("StatefulSet", name, {"spec": {"updateStrategy": patch}})

    common = _common_changes(world, "StatefulSet", name)
    scale = _scale(world, "StatefulSet", name, 4)
    return _Owner("StatefulSet", name, [*common, scale, scale, partition], hold=3)


def _daemon_set(world: _World, name: str) -> _Owner:
    spec: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": _template(world, name, **_phase(world)),
    }
    if world.chance(0.3):
        spec["updateStrategy"] = {"type": "OnDelete"}
    elif world.chance(0.5):
        rolling: Object = {"maxUnavailable": world.one_of((1, 2, "50%"))}
        if world.chance(0.4):
            rolling = {"maxSurge": world.one_of((1, "50%")), "maxUnavailable": 0}
        spec["updateStrategy"] = {"rollingUpdate": rolling}
    if world.chance(0.2):
        spec["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    world.create("DaemonSet", name, spec=spec)

    def label() -> None:
        node = world.one_of(world.nodes)["name"]
        world.patch("Node", node, {"metadata": {"labels": {"disk": world.one_of(("ssd", None))}}})

    def taint() -> None:
        node = world.one_of(world.nodes)["name"]
        effect = world.one_of(("NoSchedule", "NoExecute"))
        taints = [{"key": "dedicated", "effect": effect}] if world.chance(0.6) else None
        world.patch("Node", node, {"spec": {"taints": taints}})

    def node() -> None:
        world.do("node-add", node={"name": world.node_name(), "labels": {"disk": "ssd"}})

    return _Owner("DaemonSet", name, [*_common_changes(world, "DaemonSet", name), label, taint, node], hold=3)


def _job(world: _World, name: str) -> _Owner:
    random = world.random
    template = _template(world, name)
    template["spec"]["restartPolicy"] = "Never"
    completions = random.randint(1, 4)
    parallelism = random.randint(1, 3)
    spec: Object = {"completions": completions, "parallelism": parallelism, "template": template}
    annotations: dict[str, str] = {
        "sim/phase": world.one_of(("Running", "Succeeded", "Succeeded", "Failed", "NeverReady"))
    }
    if world.chance(0.5):
        spec["completionMode"] = "Indexed"
        for index in range(completions):
            if world.chance(0.3):
                annotations[f"sim/phase.{index}"] = world.one_of(("Succeeded", "Failed", "Running"))
        if world.minor >= 33 and world.chance(0.4):
            spec["backoffLimitPerIndex"] = 0
            if world.chance(0.4):
                spec["maxFailedIndexes"] = random.randint(0, 2)
        if world.minor >= 33 and world.chance(0.3):
            rule: Object = {"succeededIndexes": f"0-{random.randint(0, completions - 1)}"}
            if world.chance(0.4):
                rule = {"succeededCount": random.randint(1, completions)}
            spec["successPolicy"] = {"rules": [rule]}
    if "backoffLimitPerIndex" not in spec:
        spec["backoffLimit"] = 0
    if world.minor >= 31 and world.chance(0.3):
        annotations["sim/exit-code"] = str(world.one_of((1, 42)))
        action = world.one_of(
            ("FailJob", "Ignore", "Count") + (("FailIndex",) if "backoffLimitPerIndex" in spec else ())
        )
        if action == "Ignore":
            action = "Count"  # a pod that fails for ever never comes to rest
        codes = {"operator": world.one_of(("In", "NotIn")), "values": [42]}
        spec["podFailurePolicy"] = {"rules": [{"action": action, "onExitCodes": codes}]}
    elif world.minor >= 34 and world.chance(0.2):
        spec["podReplacementPolicy"] = world.one_of(("Failed", "TerminatingOrFailed"))
    if world.chance(0.15):
        spec["suspend"] = True
    template["metadata"]["annotations"] = annotations
    world.create("Job", name, spec=spec)
    labels = {"app": name}

    def suspend() -> None:
        world.patch("Job", name, {"spec": {"suspend": world.chance(0.5)}}, mayFail=True)

    def parallel() -> None:
        world.patch("Job", name, {"spec": {"parallelism": random.randint(0, 4)}}, mayFail=True)

    def finish() -> None:
        patch = {"metadata": {"annotations": {"sim/phase": world.one_of(("Succeeded", "Failed"))}}}
        select = {"labels": labels, "where": {"status.phase": "Running"}, "count": 1}
        world.do("mark", select=select, patch=patch, mayFail=True)

    def delete_pods() -> None:
        world.do("delete-pods", select={"labels": labels, "count": 1}, mayFail=True)

    def remove() -> None:
        propagation = world.one_of(("Background", "Foreground", "Orphan"))
        world.do("delete", kind="Job", name=name, propagation=propagation, mayFail=True)

    return _Owner("Job", name, [suspend, parallel, finish, finish, delete_pods, remove], hold=4)


_MAKERS = (_deployment, _deployment, _stateful_set, _daemon_set, _job, _job, _replica_set)
FAMILIES: dict[str, Callable[[_World], None]] = {
    "place": _place,
    "preempt": _preempt,
    "devices": _devices,
    "workloads": _workloads,
}
