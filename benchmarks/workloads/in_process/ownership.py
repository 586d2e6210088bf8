"""What field ownership costs a write: CPU of the functions that compute managedFields, in this process.

The best round counts: these are microseconds of pure computation, and other processes of a shared machine only add to
them. `apply` includes decoding, because an applied configuration is decoded for it alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import orjson

from benchmarks.loads.plans import config_map
from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.workload import Workload
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Patch
from rewound.actors.names import CLUSTER
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.managed_fields.ownership import owned_after
from rewound.actors.resource.applying import apply_object
from rewound.actors.resource.current import Current
from rewound.actors.runtime.coroutines import without_waiting
from rewound.actors.runtime.write_context import WriteContext

TIME = "2020-01-01T00:00:00Z"
CONTAINERS = 20
ROUNDS = 20


class Owned:
    """An object, the field views of its kind, and the functions that compute its managedFields."""

    def __init__(self, plural: str, document: Any) -> None:
        definition = built_in(CLUSTER).find("", "v1", plural)
        assert definition is not None
        self.definition: Definition = definition
        self.views = FieldViews({definition.api_version: definition})
        self.view = self.views(definition.api_version, "")
        self.new = definition.schema.decode_object(document).object
        self.new["metadata"] |= {"uid": "u", "creationTimestamp": TIME}
        self.stored = self.with_owners(self.new, self.create())

    def create(self) -> list[Any]:
        return without_waiting(owned_after(self.views, self.view, None, self.new, "creator", TIME))

    def update(self, after: Any) -> list[Any]:
        return without_waiting(owned_after(self.views, self.view, self.stored, after, "updater", TIME))

    def apply(self, current: Current, manager: str, config: Any) -> Any:
        context = WriteContext(0, "user", manager, "u", "xxxxx")
        name, version = current.object["metadata"]["name"], self.definition.api_version
        command = Patch(version, "", name, "apply", config, context, force=True)
        return without_waiting(apply_object(self.views, self.definition, current, command))

    def with_owners(self, new: Any, entries: list[Any]) -> Any:
        """The object with these managedFields, as the journal returns it."""
        return orjson.loads(orjson.dumps({**new, "metadata": {**new["metadata"], "managedFields": entries}}))


def config_map_create(sizes: Sizes) -> Measurement:
    owned = Owned("configmaps", orjson.loads(config_map("a", 1)))
    return measured("ownership-create", sizes, owned.create)


def config_map_update(sizes: Sizes) -> Measurement:
    owned = Owned("configmaps", orjson.loads(config_map("a", 1)))
    after = {**owned.new, "data": {"payload": "another"}}
    return measured("ownership-update", sizes, lambda: owned.update(after))


def pod_update(sizes: Sizes) -> Measurement:
    owned = Owned("pods", _pod(image="i:1"))
    after = owned.definition.schema.decode_object(_pod(image="i:2")).object
    after["metadata"] |= {"uid": "u", "creationTimestamp": TIME}
    return measured("ownership-pod-update", sizes, lambda: owned.update(after))


def pod_apply(sizes: Sizes) -> Measurement:
    """Apply by one of three managers: one owns all fields, one the images and a variable, one the resources."""
    owned = Owned("pods", _pod(image="i:1"))
    others = (
        ("image", lambda n: {"image": "i:1", "env": [{"name": "X", "value": "1"}]}),
        ("resources", lambda n: {"resources": {"requests": {"cpu": "100m"}}}),
    )
    current = Current(1, owned.with_owners(owned.new, []))
    current = _applied(owned, current, "all", _typed(_pod(image="i:1")))
    for manager, part in others:
        current = _applied(owned, current, manager, _typed(_pod_of(part)))
    config = _typed(_pod(image="i:2"))
    return measured("ownership-pod-apply", sizes, lambda: owned.apply(current, "all", config))


def _applied(owned: Owned, current: Current, manager: str, config: Any) -> Current:
    made = owned.apply(current, manager, config)
    made["metadata"].pop("resourceVersion", None)
    return Current(current.offset + 1, orjson.loads(orjson.dumps(made)))


def _typed(document: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Pod", **document}


def _pod(image: str) -> Any:
    def container(number: int) -> Any:
        return {
            "image": image,
            "args": ["--verbose", f"--number={number}"],
            "env": [{"name": f"E{index}", "value": "v"} for index in range(4)],
            "ports": [{"name": f"p{number}", "containerPort": 8000 + number}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }

    document = _pod_of(container)
    document["metadata"]["labels"] = {"app": "bench"}
    document["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    return document


def _pod_of(container: Callable[[int], Any]) -> Any:
    containers = [{"name": f"c{number}", **container(number)} for number in range(CONTAINERS)]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers}}


def measured(work: str, sizes: Sizes, run: Callable[[], Any]) -> Measurement:
    """Rounds of a few milliseconds each, so that the scheduler leaves some of them uninterrupted."""
    run()
    count = max(1, int(0.005 / max(_spent(run, 1), 1e-6)))
    rounds = [_spent(run, count) / count for _ in range(ROUNDS if sizes.seconds >= 1 else 3)]
    notes = {"operations": count * len(rounds), "middle_us": round(sorted(rounds)[len(rounds) // 2] * 1e6, 2)}
    return Measurement(work, {"cpu_us": round(min(rounds) * 1e6, 2)}, notes)


def _spent(run: Callable[[], Any], count: int) -> float:
    begin = time.process_time()
    for _ in range(count):
        run()
    return time.process_time() - begin


OWNERSHIP: tuple[Workload[Sizes], ...] = (
    Workload("ownership-create", "ownership of a new 1 kB ConfigMap", config_map_create),
    Workload("ownership-update", "ownership after an update of it", config_map_update),
    Workload("ownership-pod-update", "ownership after an update of 20 containers", pod_update),
    Workload("ownership-pod-apply", "apply of 20 containers, three managers", pod_apply),
)
