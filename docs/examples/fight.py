"""Two small controllers that fight over a field, for docs/replay.md. They need nothing but Python.

    python fight.py scaler --server http://127.0.0.1:8080 --token scaler-token
    python fight.py deployer --server http://127.0.0.1:8080 --token deployer-token
    python fight.py fixed-deployer --server http://127.0.0.1:8080 --token deployer-token

The scaler sets the replicas of the Deployment web by its annotation `load`: one for each hundred. The deployer keeps
the Deployment as its manifest says, and the manifest has replicas too: that is the bug. The fixed one leaves them out.
`--writes N` ends after N writes.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

PATH = "/apis/apps/v1/namespaces/default/deployments"
NAME = "web"
MANIFEST = {"replicas": 2, "image": "web:2"}

Deployment = dict[str, Any]
Decide = Callable[[Deployment], dict[str, Any] | None]  # the patch that a Deployment needs, if any


def scaler(deployment: Deployment) -> dict[str, Any] | None:
    load = int(deployment["metadata"].get("annotations", {}).get("load", 0))
    wanted = max(1, -(-load // 100))
    return None if deployment["spec"]["replicas"] == wanted else {"spec": {"replicas": wanted}}


def deployer(deployment: Deployment) -> dict[str, Any] | None:
    patch = fixed_deployer(deployment) or {"spec": {}}
    if deployment["spec"]["replicas"] != MANIFEST["replicas"]:
        patch["spec"]["replicas"] = MANIFEST["replicas"]
    return patch if patch["spec"] else None


def fixed_deployer(deployment: Deployment) -> dict[str, Any] | None:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    if container["image"] == MANIFEST["image"]:
        return None
    containers = [{**container, "image": MANIFEST["image"]}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


class Client:
    def __init__(self, server: str, token: str, manager: str) -> None:
        self._server, self._manager = server, manager
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": manager}

    def get(self) -> Deployment:
        with self._open("GET", f"{PATH}/{NAME}") as response:
            found: Deployment = json.load(response)
            return found

    def patch(self, patch: dict[str, Any]) -> None:
        path = f"{PATH}/{NAME}?fieldManager={self._manager}"
        with self._open("PATCH", path, json.dumps(patch).encode()) as response:
            response.read()

    def watch(self) -> Iterator[None]:
        """Yield for every event of the Deployments: what it has is read again, so that none is missed."""
        with self._open("GET", f"{PATH}?watch=1") as response:
            for _ in response:
                yield

    def _open(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {**self._headers, "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(self._server + path, body, headers, method=method)
        return urllib.request.urlopen(request)


def step(client: Client, decide: Decide) -> bool:
    """Look once, write if necessary; whether it wrote."""
    patch = decide(client.get())
    if patch is None:
        return False
    client.patch(patch)
    return True


CONTROLLERS: dict[str, Decide] = {"scaler": scaler, "deployer": deployer, "fixed-deployer": fixed_deployer}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("controller", choices=CONTROLLERS)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--token", required=True)
    parser.add_argument("--writes", type=int, default=sys.maxsize)
    given = parser.parse_args(arguments)
    client = Client(given.server, given.token, given.controller)
    left = given.writes
    for _ in client.watch():
        left -= step(client, CONTROLLERS[given.controller])
        if left <= 0:
            return


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
