"""Users of one namespace, on a server with simulated nodes, write large numbers into objects of controllers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.attacks.target import Attack, Run, Target, post, read_response

_WHO = "users who may write in a namespace of a server with --nodes"
_LARGEST = 2**31 - 1
_LABELS = {"app": "hostile"}
_NAMED_PORTS = 2000
Written = tuple[str, dict[str, Any]]  # a collection, and what is created in it


def _flags(_: Path, __: int) -> tuple[str, ...]:
    return ("--nodes", "3")


def _creates(*written: Written) -> Run:
    async def run(target: Target) -> None:
        async with await target.connect() as stream:
            for path, body in written:
                await stream.send_all(post(path, json.dumps(body).encode()))
                status = await read_response(stream)
                if status != 201:
                    raise RuntimeError(f"POST {path} was answered with {status}")
        await target.over()

    return run


def _template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"labels": _LABELS}, "spec": {"containers": containers, **spec}}


def _named(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def _apps(plural: str, template: dict[str, Any] | None = None, **spec: Any) -> Written:
    selected: dict[str, Any] = {
        "selector": {"matchLabels": _LABELS},
        "template": template or _template(),
    }
    if plural == "statefulsets":
        selected["serviceName"] = "hostile"
    new = _named("hostile", {"replicas": _LARGEST, **selected, **spec})
    return f"/apis/apps/v1/namespaces/default/{plural}", new


def _job(**spec: Any) -> Written:
    new = _named("hostile", {"template": _template(restartPolicy="Never"), **spec})
    return "/apis/batch/v1/namespaces/default/jobs", new


def _controller() -> Written:
    new = _named("hostile", {"replicas": _LARGEST, "selector": _LABELS, "template": _template()})
    return "/api/v1/namespaces/default/replicationcontrollers", new


def _claims(count: int) -> list[dict[str, Any]]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [{"metadata": {"name": f"c{number}"}, "spec": wanted} for number in range(count)]


def _many(count: int, make: Callable[[int], Written]) -> Sequence[Written]:
    return [make(number) for number in range(count)]


def _budget(number: int) -> Written:
    spec = {"minAvailable": "50%", "selector": {"matchLabels": _LABELS}}
    return "/apis/policy/v1/namespaces/default/poddisruptionbudgets", _named(f"b{number}", spec)


def _service() -> Written:
    ports = [{"name": f"p{n}", "port": n + 1, "targetPort": f"p{n}"} for n in range(_NAMED_PORTS)]
    return "/api/v1/namespaces/default/services", _named("hostile", {"selector": _LABELS, "ports": ports})


def _spread(count: int) -> dict[str, Any]:
    constraints = [
        {
            "maxSkew": _LARGEST,
            "topologyKey": f"example.com/key-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": _LABELS},
        }
        for number in range(count)
    ]
    return _template(topologySpreadConstraints=constraints)


def _apart(count: int) -> dict[str, Any]:
    terms = [
        {"topologyKey": f"example.com/key-{number}", "labelSelector": {"matchLabels": _LABELS}}
        for number in range(count)
    ]
    return _template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def _with_ports() -> dict[str, Any]:
    ports = [{"name": f"p{number}", "containerPort": number + 1} for number in range(_NAMED_PORTS)]
    return _template(containers=[{"name": "c", "image": "i", "ports": ports}])


def _autoscaler() -> Written:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hostile"}
    spec = {"scaleTargetRef": target, "minReplicas": _LARGEST - 1, "maxReplicas": _LARGEST}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    return path, _named("hostile", spec)


_PARALLEL = {"podManagementPolicy": "Parallel"}
_SURGE = {"rollingUpdate": {"maxSurge": _LARGEST, "maxUnavailable": _LARGEST}}
_PARTITION = {"updateStrategy": {"rollingUpdate": {"partition": _LARGEST}}}
_INDEXED = {"completionMode": "Indexed", "completions": _LARGEST, "parallelism": 100_000}
_ATTACKS: dict[str, Run] = {
    "stateful-set-of-2147483647": _creates(_apps("statefulsets", **_PARTITION)),
    "parallel-stateful-set-of-2147483647": _creates(_apps("statefulsets", **_PARALLEL)),
    "stateful-set-with-50-claims-each": _creates(
        _apps("statefulsets", **_PARALLEL, volumeClaimTemplates=_claims(50))
    ),
    "replica-set-of-2147483647": _creates(_apps("replicasets")),
    "replication-controller-of-2147483647": _creates(_controller()),
    "deployment-of-2147483647": _creates(_apps("deployments", strategy=_SURGE)),
    "autoscaler-to-2147483647": _creates(_apps("deployments", replicas=1), _autoscaler()),
    "job-of-2147483647": _creates(_job(parallelism=_LARGEST)),
    "indexed-job-of-2147483647": _creates(_job(**_INDEXED)),
    "pods-with-200-spread-constraints": _creates(_apps("replicasets", _spread(200))),
    "pods-with-200-affinity-terms": _creates(_apps("replicasets", _apart(200))),
    "service-with-2000-named-ports": _creates(_service(), _apps("replicasets", _with_ports(), replicas=300)),
    "500-disruption-budgets": _creates(*_many(500, _budget), _apps("replicasets")),
}
CONTROLLED = {name: Attack(run, _WHO, flags=_flags) for name, run in _ATTACKS.items()}
