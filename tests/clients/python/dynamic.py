"""Goes through the life of a custom resource with the dynamic client, and prints a line of JSON for each step.

python dynamic.py <kubeconfig> <file with a CustomResourceDefinition> <file with an object>
"""

import json
import sys
import threading
from typing import Any

from kubernetes import config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

DEFINITIONS = {"api_version": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
SHOPS = {"api_version": "example.com/v1", "kind": "Shop"}
HERE = {"namespace": "default"}
MERGE = "application/merge-patch+json"


def main(kubeconfig: str, definition: str, shop: str) -> None:
    client = DynamicClient(config.new_client_from_config(kubeconfig))
    body = read(shop)
    define(client, read(definition))
    shops = client.resources.get(**SHOPS)
    done("discovered", [shops.name, shops.kind, shops.namespaced, sorted(shops.subresources)])
    created = shops.create(body=body, **HERE)
    done("created", created.spec.to_dict())
    watcher = threading.Thread(target=watch, args=(shops, created.metadata.resourceVersion))
    watcher.start()
    change(shops, body)
    subresources(shops, body["metadata"]["name"])
    delete(shops, body["metadata"]["name"])
    watcher.join(60)
    retire(client, read(definition)["metadata"]["name"])


def define(client: DynamicClient, body: dict[str, Any]) -> None:
    definitions = client.resources.get(**DEFINITIONS)
    created = definitions.create(body=body)
    name, version = created.metadata.name, created.metadata.resourceVersion
    if not is_established(created):
        for event in definitions.watch(name=name, resource_version=version, timeout=60):
            if is_established(event["object"]):
                break
    done("established", name)


def is_established(definition: Any) -> bool:
    conditions = definition.to_dict().get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def watch(shops: Any, version: str) -> None:
    for event in shops.watch(**HERE, resource_version=version, timeout=60):
        found = event["object"]
        done("watched", [event["type"], found.metadata.name, found.spec.colour, found.spec.tills])
        if event["type"] == "DELETED":
            return


def change(shops: Any, body: dict[str, Any]) -> None:
    name = body["metadata"]["name"]
    read = shops.get(name=name, **HERE).to_dict()
    read["spec"]["colour"] = "blue"
    done("replaced", shops.replace(body=read, **HERE).spec.colour)
    try:
        shops.replace(body=read, **HERE)
    except ConflictError as error:
        done("conflict", error.status)
    patch = {"metadata": {"name": name, "labels": {"town": "north"}}}
    done("patched", shops.patch(body=patch, content_type=MERGE, **HERE).metadata.labels.to_dict())
    applied = shops.server_side_apply(body=body, field_manager="me", force_conflicts=True, **HERE)
    done("applied", [applied.spec.colour, applied.metadata.managedFields[0].operation])
    listed = shops.get(label_selector="town=north", **HERE)
    done("listed", [listed.kind, [one.metadata.name for one in listed.items]])


def subresources(shops: Any, name: str) -> None:
    status = {"metadata": {"name": name}, "status": {"phase": "Open", "tills": 1, "selector": "shop=corner"}}
    done("status", shops.status.patch(body=status, content_type=MERGE, **HERE).status.phase)
    scale = {"metadata": {"name": name}, "spec": {"replicas": 4}}
    scaled = shops.scale.patch(body=scale, content_type=MERGE, **HERE)
    done("scaled", [scaled.kind, scaled.spec.replicas, scaled.status.to_dict()])
    done("tills", shops.get(name=name, **HERE).spec.tills)


def delete(shops: Any, name: str) -> None:
    shops.delete(name=name, **HERE)
    try:
        shops.get(name=name, **HERE)
    except NotFoundError as error:
        done("deleted", error.status)


def retire(client: DynamicClient, name: str) -> None:
    """Delete the definition, and wait until it is removed."""
    definitions = client.resources.get(**DEFINITIONS)
    version = definitions.get(name=name).metadata.resourceVersion
    definitions.delete(name=name)
    for event in definitions.watch(name=name, resource_version=version, timeout=60):
        if event["type"] == "DELETED":
            break
    client.resources.invalidate_cache()
    try:
        client.resources.get(**SHOPS)
    except ResourceNotFoundError:
        done("retired", name)


def done(step: str, found: Any) -> None:
    # One write: two threads print.
    sys.stdout.write(json.dumps([step, found]) + "\n")


def read(path: str) -> dict[str, Any]:
    with open(path) as file:
        found: dict[str, Any] = json.load(file)
    return found


main(*sys.argv[1:])
