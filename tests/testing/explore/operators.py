"""A correct operator that copies values chosen by the server: uids, addresses, ports, versions and generated names."""

from __future__ import annotations

from typing import Any

from rewound import Api

CORE = "/api/v1/namespaces/default"
APPS, SERVICES, CLAIMS, PODS = (
    f"{CORE}/{one}" for one in ("configmaps", "services", "persistentvolumeclaims", "pods")
)
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MERGE = {"content-type": "application/merge-patch+json"}
POD_SPEC = {"containers": [{"name": "web", "image": "web:1"}], "restartPolicy": "Never"}
CREATED, THERE, GONE = 201, 409, 404


def create_apps(api: Api) -> None:
    """The test's own steps: two apps, and a service that is created and deleted between them."""
    for name in ("blue", "green"):
        body = {"metadata": {"name": name, "labels": {"app": name}}, "data": {"port": "80"}}
        api.post(APPS, json=body).raise_for_status()
        api.post(SERVICES, json=service(f"{name}-test", name)).raise_for_status()
    api.delete(f"{SERVICES}/blue-test").raise_for_status()
    api.settle()


def installs_apps(api: Api) -> None:
    """Creates what an app needs, and writes the results into the app. It is no error if something already exists."""
    known = api.informers(APPS, PODS)
    while True:
        known.update()
        for app in known[APPS]:
            name = app["metadata"]["name"]
            if app["metadata"].get("labels", {}).get("app") == name:
                install(api, app)


def install(api: Api, app: Any) -> None:
    name, owner = app["metadata"]["name"], reference(app)
    web = ensure(api, SERVICES, service(name, name, owner))
    job = ensure(api, JOBS, job_of(name, owner))
    claim = ensure(api, CLAIMS, claim_of(name, owner))
    pod = ensure_pod(api, name, owner)
    ensure(api, APPS, {"metadata": {"name": f"of-{pod}"}, "data": {"pod": pod}})
    spec = web["spec"]
    data = {
        "url": f"http://{spec['clusterIP']}:{spec['ports'][0]['nodePort']}/",
        "version": web["metadata"]["resourceVersion"],
        "since": web["metadata"]["creationTimestamp"],
        "selector": job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"],
        "claim": f"pvc-{claim['metadata']['uid']}",
        "pod": pod,
        job["metadata"]["uid"]: "job",
    }
    if app["data"].items() >= data.items():
        return
    done = api.patch(f"{APPS}/{name}", json={"data": data}, headers=MERGE)
    if done.status_code != GONE:
        done.raise_for_status()


def ensure(api: Api, path: str, body: Any) -> Any:
    created = api.post(path, json=body)
    if created.status_code == CREATED:
        return created.json()
    if created.status_code != THERE:
        created.raise_for_status()
    found = api.get(f"{path}/{body['metadata']['name']}")
    found.raise_for_status()
    return found.json()


def ensure_pod(api: Api, name: str, owner: Any) -> str:
    """Decides by the newest list instead of a cache whether there is one: no name prevents a second."""
    found = api.get(PODS, params={"labelSelector": f"app={name}"})
    found.raise_for_status()
    if pods := found.json()["items"]:
        return str(pods[0]["metadata"]["name"])
    metadata = {"generateName": f"{name}-", "labels": {"app": name}, "ownerReferences": [owner]}
    created = api.post(PODS, json={"metadata": metadata, "spec": POD_SPEC})
    created.raise_for_status()
    return str(created.json()["metadata"]["name"])


def reference(app: Any) -> Any:
    metadata = app["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}


def service(name: str, app: str, *owners: Any) -> Any:
    spec = {"type": "NodePort", "selector": {"app": app}, "ports": [{"port": 80}]}
    return {"metadata": {"name": name, "ownerReferences": list(owners)}, "spec": spec}


def job_of(name: str, owner: Any) -> Any:
    spec = {"template": {"spec": POD_SPEC}}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}


def claim_of(name: str, owner: Any) -> Any:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}


def claims_without_service(api: Api) -> None:
    """The same with a bug: it creates the claim of an app only right after its service."""
    known = api.informers(APPS)
    while True:
        known.update()
        for app in known[APPS]:
            name, owner = app["metadata"]["name"], reference(app)
            if "app" not in app["metadata"].get("labels", {}):
                continue
            if api.post(SERVICES, json=service(name, name, owner)).status_code == CREATED:
                ensure(api, CLAIMS, claim_of(name, owner))
