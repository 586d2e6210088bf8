"""Plays a recorded story against a server, in virtual time, and says where it comes to rest elsewhere.

    with served("1.36", own_nodes=False) as api:
        differences = play(api, json.loads(path.read_text()), own_nodes=False)

`docs/workloads.md` describes what a story has. A step is a request or a change to a node; `settle` is a point of
comparison: time passes until the state equals the recorded one and stays so, or until the story's time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from tests.stories.api import WORLD, Api, Object, is_namespaced
from tests.stories.played_nodes import PlayedNodes
from tests.stories.world import differences, world

_POOL: tuple[Object, ...] = ({"name": "node-a"}, {"name": "node-b"}, {"name": "node-c"})
_LONGEST_PAUSE = 8.0  # seconds between two comparisons
_ROUNDS = 200  # of nodes and controllers that answer each other
_CLEANED_WITHIN = 120.0  # seconds
_REFUSAL = re.compile("Invalid value: .*: field is immutable", re.DOTALL)

Answer = tuple[int, Object]


def play(api: Api, story: Object, *, own_nodes: bool) -> list[str]:
    """What is other than recorded, as lines."""
    return Play(api, story, own_nodes=own_nodes).run()


class Play:
    """A story in a namespace of its own. What it does with an answer and at a point of comparison may be replaced."""

    def __init__(self, api: Api, story: Object, *, own_nodes: bool) -> None:
        self._api = api
        self._story = story
        self._own_nodes = own_nodes
        self._nodes = PlayedNodes(api, own_nodes=own_nodes)
        self._namespace = f"w-{story['id']}"
        self._seen: set[tuple[str, str]] = set()
        self._node_names: set[str] = set()
        self._created: list[tuple[str, str]] = []  # objects without a namespace
        self._loose: set[str] = set()
        self._earlier_events: set[str] = set()

    def run(self) -> list[str]:
        self._earlier_events = {one["metadata"]["uid"] for one in self._api.list("Event", "default")}
        try:
            self._begin()
            for number, step in enumerate(self._story["steps"]):
                if found := self._step(number, self._filled(step)):
                    return found
            return []
        finally:
            self.clean()

    def _filled(self, step: Object) -> Object:
        text = orjson.dumps(step).decode()
        filled = text.replace("{{ns}}", self._namespace).replace("{{now}}", self._api.now_text)
        result: Object = orjson.loads(filled)
        return result

    def _begin(self) -> None:
        wanted = self._story.get("nodes") or ([] if self._story.get("exclusive") else list(_POOL))
        for node in wanted:
            self._add_node(node)
        self.until(lambda: all(self._is_ready(node) for node in wanted), 60)
        labels = self._story.get("namespaceLabels", {})
        metadata = {"name": self._namespace, "labels": labels}
        code, created = self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        assert code == 201, created
        self.until(lambda: self._api.find("ServiceAccount", self._namespace, "default") is not None, 20)

    def _add_node(self, node: Object) -> None:
        self._nodes.add(node)
        self._node_names.add(node["name"])

    def _is_ready(self, wanted: Object) -> bool:
        node = self._api.find("Node", "", wanted["name"])
        if node is None:
            return False
        conditions = {one["type"]: one["status"] for one in node["status"].get("conditions") or ()}
        expected = wanted.get("conditions", {})
        keys = {taint["key"] for taint in node["spec"].get("taints") or ()}
        away = keys & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
        return conditions.get("Ready") == expected.get("Ready", "True") and (not away or bool(expected))

    # Time.

    def rest(self) -> None:
        """Let controllers and nodes do all that is due now."""
        for _ in range(_ROUNDS):
            self._api.advance(0)
            self._look()
            if not self._nodes.move():
                return

    def _look(self) -> None:
        for kind in ("Job", "ReplicaSet", "CronJob"):
            self._seen.update(
                (kind, one["metadata"]["name"]) for one in self._api.list(kind, self._namespace)
            )

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        end = self._api.elapsed + seconds
        self.rest()
        while not holds():
            if self._api.elapsed >= end:
                return False
            self._api.advance(self._api.step)
            self.rest()
        return True

    # Steps.

    def _step(self, number: int, step: Object) -> list[str]:
        if step["do"] == "settle":
            return self.settle(step)
        code, answer = self._do(step)
        found: Object = {"code": code}
        if code >= 400 or code == 0:
            found |= {key: answer[key] for key in ("reason", "message", "details") if key in answer}
        return self.note_answer(number, step, self._named(found))

    def note_answer(self, number: int, step: Object, found: Object) -> list[str]:
        """What is other than recorded in the answer to a step."""
        recorded = self._story.get("answers", {}).get(str(number))
        if recorded is None or step.get("mayVary"):
            return []
        return _compare_answers(f"step {number} ({step['do']})", recorded, found)

    def _named(self, answer: Object) -> Object:
        """An answer in the form of a recording: as an object in a world that has no others."""
        carrier = {
            "apiVersion": "v1",
            "kind": "Answer",
            "metadata": {"name": "a", "uid": ""},
            "status": answer,
        }
        formed = world(
            {"Answer": [carrier]},
            (),
            namespace=self._namespace,
            nodes=self._node_names,
            seen=self._seen,
            exact_nodes=self._story.get("exactNodes", False),
        )
        result: Object = formed["objects"]["Answer/a"]["status"]
        return result

    def _do(self, step: Object) -> Answer:
        kind, name, api = step.get("kind", ""), step.get("name", ""), self._api
        match step["do"]:
            case "create":
                given = step["object"]
                self._note(given["kind"], given["metadata"].get("name", ""))
                return api.create(given, self._namespace)
            case "apply":
                given = step["object"]
                self._note(given["kind"], given["metadata"]["name"])
                path = api.path(given["kind"], self._namespace, given["metadata"]["name"])
                return api.patch(f"{path}?fieldManager=scenario&force=true", given, "apply")
            case "patch":
                path = api.path(kind, self._namespace, name, step.get("subresource", ""))
                return api.patch(path, step["patch"], step.get("type", "merge"))
            case "patch-owned":
                answer: Answer = (0, {"message": "nothing found"})
                names = [one["metadata"]["name"] for one in api.list(kind, self._namespace)]
                for one in sorted(names):
                    if one.startswith(step["ownerPrefix"]):
                        path = api.path(kind, self._namespace, one)
                        answer = api.patch(path, step["patch"], step.get("type", "merge"))
                return answer
            case "scale":
                scale = {"spec": {"replicas": step["replicas"]}}
                return api.patch(api.path(kind, self._namespace, name, "scale"), scale)
            case "delete":
                options = {"propagationPolicy": step["propagation"]} if "propagation" in step else {}
                options |= _grace(step)
                return api.delete(api.path(kind, self._namespace, name), **options)
            case "mark" | "delete-pods" | "evict" | "pod-status" | "metrics":
                return self._do_with_pods(step)
            case "wait":
                held = self.until(lambda: all(map(self.holds, step["until"])), step.get("timeout", 60))
                return (200, {}) if held else (0, {"message": f"waited in vain for {step['until']}"})
            case "sleep":
                self.until(lambda: False, step["seconds"])
            case "node-stop":
                self.rest()
                self._nodes.stop(name)
            case "node-start":
                self._nodes.start(name)
            case "node-add":
                self._add_node(step["node"])
                if step.get("wait", True):
                    self.until(lambda: self._is_ready(step["node"]), 60)
            case "node-remove":
                self._nodes.remove(name)
            case unknown:
                raise AssertionError(f"unknown step {unknown}")
        return 200, {}

    def _note(self, kind: str, name: str) -> None:
        self._seen.add((kind, name))
        if not is_namespaced(kind):
            self._created.append((kind, name))

    def _do_with_pods(self, step: Object) -> Answer:
        self.rest()
        select, api = step.get("select", {}), self._api
        pods = list(self._selected(select))
        least = 0 if step["do"] == "metrics" and "index" not in select else 1
        if len(pods) < select.get("count", least):
            return 0, {"message": f"too few pods match: {len(pods)}"}
        answer: Answer = (200, {})
        for pod in pods:
            path = api.path("Pod", self._namespace, pod["metadata"]["name"])
            match step["do"]:
                case "mark":
                    answer = api.patch(path, step["patch"], step.get("type", "merge"))
                case "pod-status":
                    answer = api.patch(f"{path}/status", step["patch"], "strategic")
                case "delete-pods":
                    answer = api.delete(path, **_grace(step))
                case "evict":
                    metadata = {"name": pod["metadata"]["name"], "namespace": self._namespace}
                    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
                    answer = api.send("POST", f"{path}/eviction", eviction | step.get("body", {}))
                    self.rest()
                case _:
                    answer = self._write_metrics(pod, step)
        return answer

    def _write_metrics(self, pod: Object, step: Object) -> Answer:
        usage = {"cpu": step["cpu"], "memory": step.get("memory", "10Mi")}
        name = pod["metadata"]["name"]
        metrics = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": name, "labels": pod["metadata"].get("labels") or {}},
            "timestamp": "2099-01-01T00:00:00Z",
            "window": "1s",
            "containers": [{"name": one["name"], "usage": usage} for one in pod["spec"]["containers"]],
        }
        answer = self._api.create(metrics, self._namespace)
        if answer[0] == 409:
            path = self._api.path("PodMetrics", self._namespace, name)
            answer = self._api.patch(path, {"containers": metrics["containers"]})
        return answer

    def _selected(self, select: Object) -> Iterator[Object]:
        """Oldest first."""
        pods = self._api.list("Pod", self._namespace)
        pods.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        found = []
        for pod in pods:
            metadata = pod["metadata"]
            labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
            matches = (
                select.get("name", metadata["name"]) == metadata["name"]
                and select.get("labels", {}).items() <= labels.items()
                and not any(
                    annotations.get(key) == value for key, value in select.get("notAnnotated", {}).items()
                )
                and all(_at(pod, path) == value for path, value in select.get("where", {}).items())
                and bool(metadata.get("deletionTimestamp")) == select.get("terminating", False)
            )
            if matches:
                found.append(pod)
        if "index" in select:
            return iter(found[select["index"] : select["index"] + 1])
        return iter(found[: select.get("count", len(found))])

    # Points of comparison.

    def settle(self, step: Object) -> list[str]:
        """What is other than recorded at a point of comparison."""
        self._loose.update(step.get("loose", ()))
        recorded = self._story["recorded"][step["name"]]
        still = max(1.0, step.get("hold", 0) / 2)  # seconds that the state has to last
        end = self._api.elapsed + step.get("timeout", 60)
        pause = self._api.step
        while True:
            self.until(lambda: all(map(self.holds, step.get("until", ()))), end - self._api.elapsed)
            found = self._differences(recorded)
            if not found:
                self.until(lambda: False, still)
                found = self._differences(recorded)
            if not found or self._api.elapsed >= end:
                return [f"{step['name']}: {line}" for line in found]
            self.until(lambda: False, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _differences(self, recorded: Object) -> list[str]:
        return differences(recorded, self.world_now(), self._loose, own_nodes=self._own_nodes)

    def world_now(self) -> Object:
        api, story = self._api, self._story
        objects = {kind: api.list(kind, self._namespace) for kind in WORLD}
        self._seen.update((kind, one["metadata"]["name"]) for kind in objects for one in objects[kind])
        events = api.list("Event", self._namespace)
        wide = [
            kind
            for kind, flag in (("PersistentVolume", "volumes"), ("Node", "watchNodes"))
            if story.get(flag)
        ]
        objects |= {kind: api.list(kind) for kind in wide}
        events += [
            one
            for one in api.list("Event", "default")
            if one["metadata"]["uid"] not in self._earlier_events
            and one["involvedObject"].get("kind") in wide
        ]
        return world(
            {kind: several for kind, several in objects.items() if several},
            events,
            namespace=self._namespace,
            nodes=self._node_names,
            seen=self._seen,
            exact_nodes=story.get("exactNodes", False),
            loose_nodes=story.get("looseNodes", False),
        )

    def holds(self, condition: Object) -> bool:
        objects = self._api.list(condition["kind"], self._namespace)
        if condition["kind"] == "Event":
            return any(one.get("reason") == condition["reason"] for one in objects)
        name = condition.get("name")
        objects = [
            one
            for one in objects
            if name in (None, one["metadata"]["name"])
            and all(_at(one, path) == value for path, value in condition.get("where", {}).items())
        ]
        if condition.get("absent"):
            return not objects
        if "count" in condition:
            return len(objects) == condition["count"]
        if "path" in condition:
            return bool(objects) and all(_at(one, condition["path"]) == condition["value"] for one in objects)
        return bool(objects)

    def clean(self) -> None:
        """Remove everything, so that the next story finds an empty cluster."""
        api = self._api
        for kind, name in self._created:
            api.delete(api.path(kind, "", name))
        for name in self._node_names:
            self._nodes.start(name)
        api.delete(api.path("Namespace", "", self._namespace))
        gone = self.until(self._is_gone, _CLEANED_WITHIN)
        assert gone, f"{self._namespace} is not gone after {_CLEANED_WITHIN:.0f} seconds"
        for volume in api.list("PersistentVolume"):
            path = api.path("PersistentVolume", "", volume["metadata"]["name"])
            api.patch(path, {"metadata": {"finalizers": None}})
            api.delete(path)
        for node in api.list("Node"):
            self._nodes.remove(node["metadata"]["name"])
        self.rest()

    def _is_gone(self) -> bool:
        """Whether the namespace is gone; frees pods that the story holds."""
        for pod in self._api.list("Pod", self._namespace):
            freed = {"metadata": {"annotations": {"sim/hold-termination": None}, "finalizers": None}}
            self._api.patch(self._api.path("Pod", self._namespace, pod["metadata"]["name"]), freed)
        return self._api.find("Namespace", "", self._namespace) is None


def _grace(step: Object) -> Object:
    return {"gracePeriodSeconds": step["grace"]} if "grace" in step else {}


def _compare_answers(where: str, recorded: Object, found: Object) -> list[str]:
    def comparable(answer: Object) -> str:
        text = orjson.dumps(answer, option=orjson.OPT_SORT_KEYS).decode()
        # A refusal may print the refused value as the server's language does.
        return _REFUSAL.sub("Invalid value: <value>: field is immutable", text)

    if comparable(recorded) == comparable(found):
        return []
    return [f"{where}: {comparable(found)}, recorded {comparable(recorded)}"]


def _at(value: Any, path: str) -> Any:
    """The value at a path; an item of a list is found by its number, or by its type or name."""
    for part in path.split("."):
        if isinstance(value, list):
            if part.isdigit():
                value = value[int(part)] if int(part) < len(value) else None
            else:
                value = next((one for one in value if part in (one.get("type"), one.get("name"))), None)
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value
