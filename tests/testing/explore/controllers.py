"""Small controllers for explored runs: one like the ReplicaSet controller, and two that work together."""

from __future__ import annotations

from typing import Any

from rewound import Api

SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"content-type": "application/merge-patch+json"}
POD_SPEC = {"containers": [{"name": "web", "image": "web:1"}]}
POD = {"metadata": {"generateName": "web-"}, "spec": POD_SPEC}
WANTED = 2


def create_set(api: Api) -> None:
    """The test's own steps: it asks for two pods, and waits."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC}
    spec = {"replicas": WANTED, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    api.post(SETS, json={"metadata": {"name": "web"}, "spec": spec}).raise_for_status()
    api.settle()


def trusts_its_cache(api: Api) -> None:
    """Creates the pods missing in its informer's cache: too many, when the cache is stale."""
    known = api.informers(SETS, PODS)
    while True:
        known.update()
        for one in known[SETS]:
            for _ in range(one["spec"]["replicas"] - len(known[PODS])):
                api.post(PODS, json=POD).raise_for_status()
            report(api, one, len(known[PODS]))


def waits_for_its_pods(api: Api) -> None:
    """The same with expectations: it does nothing before its informer has seen the pods that it created."""
    known = api.informers(SETS, PODS)
    expected: set[str] = set()
    while True:
        known.update()
        expected -= {pod["metadata"]["uid"] for pod in known[PODS]}
        for one in known[SETS] if not expected else ():
            for _ in range(one["spec"]["replicas"] - len(known[PODS])):
                created = api.post(PODS, json=POD)
                created.raise_for_status()
                expected.add(created.json()["metadata"]["uid"])
            report(api, one, len(known[PODS]))


def report(api: Api, one: Any, pods: int) -> None:
    if one["status"]["replicas"] != pods:
        status = {"status": {"replicas": pods}}
        api.patch(f"{SETS}/web/status", json=status, headers=MERGE).raise_for_status()


def never_too_many_pods(state: Any) -> None:
    assert len(state("pods")) <= WANTED, f"{len(state('pods'))} pods"


def painter(api: Api) -> None:
    """Gives every ConfigMap without a color the color blue."""
    known = api.informers(MAPS)
    while True:
        known.update()
        for one in known[MAPS]:
            if "color" not in one.get("data", {}) and one["metadata"]["name"] != "kube-root-ca.crt":
                set_data(api, one, color="blue")


def framer(api: Api) -> None:
    """Gives every ConfigMap with a color a frame of that color."""
    known = api.informers(MAPS)
    while True:
        known.update()
        for one in known[MAPS]:
            color = one.get("data", {}).get("color")
            if color and one["data"].get("frame") != color:
                set_data(api, one, frame=color)


def set_data(api: Api, one: Any, **data: str) -> None:
    name, version = one["metadata"]["name"], one["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": data}
    response = api.patch(f"{MAPS}/{name}", json=body, headers=MERGE)
    if response.status_code not in (404, 409):  # an event about the change follows
        response.raise_for_status()


def create_maps(api: Api) -> None:
    for name in ("a", "b"):
        api.post(MAPS, json={"metadata": {"name": name}}).raise_for_status()
    api.settle()
    maps = {one["metadata"]["name"]: one.get("data") for one in api.get(MAPS).json()["items"]}
    assert maps["a"] == maps["b"] == {"color": "blue", "frame": "blue"}
