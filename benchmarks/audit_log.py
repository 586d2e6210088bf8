"""An audit log of level RequestResponse, and how long `rewound import audit` takes for it.

    python -m benchmarks.audit_log write 1024 audit.log     1 GiB of requests to deployments, pods and leases
    python -m benchmarks.audit_log import audit.log out     time, processor time and the largest memory of the import

The requests are those of a busy cluster: 10 of 16 renew leases or write the status of pods, the others create, patch
and delete deployments. Objects have 1 to 4 kB, with managedFields.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import orjson

from rewound.cli.main import main as rewound

OBJECTS = 2000
_BEGAN = 1_700_000_000


def write(megabytes: int, path: Path) -> None:
    random, version, live = Random(31), 1000, dict[tuple[str, int], dict[str, Any]]()
    left = megabytes << 20
    with path.open("wb") as stream:
        while left > 0:
            version += 1
            line = _line(_event(random, version, live))
            stream.write(line)
            left -= len(line)


def _line(event: dict[str, Any]) -> bytes:
    return orjson.dumps(event) + b"\n"


def _event(random: Random, version: int, live: dict[tuple[str, int], dict[str, Any]]) -> dict[str, Any]:
    resource_ = random.choice(("leases",) * 5 + ("pods",) * 5 + ("deployments",) * 6)
    key = resource_, random.randrange(OBJECTS)
    before = live.get(key)
    if before is None:
        live[key] = made = _object(resource_, key[1], version, random)
        return _audit(resource_, "create", made, made, version)
    metadata = {**before["metadata"], "resourceVersion": str(version)}
    if resource_ == "deployments" and random.random() < 0.1:
        del live[key]
        details = {"name": metadata["name"], "kind": resource_, "uid": metadata["uid"]}
        status = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details}
        return _audit(resource_, "delete", before, None, version, status)
    if resource_ == "deployments":
        patch = {"spec": {"replicas": random.randrange(10)}}
        changed = {**before, "metadata": metadata, "spec": {**before["spec"], **patch["spec"]}}
        live[key] = changed
        return _audit(resource_, "patch", changed, patch, version)
    changed = {**before, "metadata": metadata, "status": {"phase": "Running", "number": version}}
    live[key] = changed
    return _audit(resource_, "update", changed, before, version)


def _audit(
    resource_: str, verb: str, target: Any, sent: Any, version: int, returned: Any = None
) -> dict[str, Any]:
    metadata, group = target["metadata"], target["apiVersion"].rpartition("/")[0]
    micros = version * 500
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(_BEGAN + micros // 1_000_000))
    stamp = f"{second}.{micros % 1_000_000:06d}Z"
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": str(UUID(int=version)),
        "stage": "ResponseComplete",
        "requestURI": f"/apis/{group}/v1/namespaces/shop/{resource_}/{metadata['name']}",
        "verb": verb,
        "user": {"username": "system:node:node-1", "groups": ["system:nodes", "system:authenticated"]},
        "sourceIPs": ["10.0.0.7"],
        "userAgent": "kubelet/v1.25.0 (linux/amd64) kubernetes/a866cbe",
        "objectRef": {
            "resource": resource_,
            "namespace": "shop",
            "name": metadata["name"],
            "apiGroup": group,
            "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201 if verb == "create" else 200, **(returned or {})},
        "requestObject": sent,
        "responseObject": returned or target,
        "requestReceivedTimestamp": stamp,
        "stageTimestamp": stamp,
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }


_TYPES = {
    "leases": ("Lease", "coordination.k8s.io/v1"),
    "pods": ("Pod", "v1"),
    "deployments": ("Deployment", "apps/v1"),
}


def _object(resource_: str, number: int, version: int, random: Random) -> dict[str, Any]:
    kind, api_version = _TYPES[resource_]
    environment = [{"name": f"VARIABLE_{one}", "value": f"value {one}"} for one in range(20)]
    owned = {f"f:{name}": {".": {}, "f:value": {}} for name in map(str, range(20))}
    entry = {"manager": "kubelet", "operation": "Update", "apiVersion": api_version, "fieldsType": "FieldsV1"}
    return {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {
            "name": f"{resource_}-{number}",
            "namespace": "shop",
            "uid": str(UUID(int=random.getrandbits(128))),
            "resourceVersion": str(version),
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"app": f"app-{number % 50}"},
            "managedFields": [{**entry, "time": "2023-11-14T22:13:20Z", "fieldsV1": {"f:spec": owned}}],
        },
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "web", "image": "web:1", "env": environment}]}},
        },
    }


def _own_memory() -> int:
    """The memory of this process at its end, without file pages, which the kernel may take back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(one.split()[1]) for one in lines if one.startswith("RssAnon")), 0)


def measure(path: Path, out: Path) -> int:
    size, began = path.stat().st_size, time.monotonic()
    code = rewound(["import", "audit", str(path), str(out)])
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds, processor = time.monotonic() - began, used.ru_utime + used.ru_stime
    print(
        f"{size / 1e6:,.0f} MB in {seconds:.1f} s ({processor:.1f} s of processor time, "
        f"{size / 1e6 / processor:.1f} MB/s of it); {_own_memory()} kB of memory without the mapped journal"
    )
    return code


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", megabytes, path]:
            write(int(megabytes), Path(path))
        case ["import", path, out]:
            sys.exit(measure(Path(path), Path(out)))
        case _:
            sys.exit(__doc__)
