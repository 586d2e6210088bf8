"""Controllers do what grows with a template or a selector in the worker thread, or in steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from tests.actors.workloads.bench import open_bench, pod_template
from tests.counted_steps import counted_steps

LONGEST = 30_000  # lines of Python; the hash of this template alone takes more than a million
Make = Callable[[str, int], Object]
KINDS = ("deployment", "replicaset", "daemonset", "statefulset", "job")


def with_variables(name: str, count: int) -> Object:
    labels = {"app": name}
    template = pod_template(labels)
    template["spec"]["containers"][0]["env"] = [{"name": f"V{n}", "value": "a"} for n in range(count)]
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def with_values(name: str, count: int) -> Object:
    values = [f"{name}{number}" for number in range(count)]
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    template = pod_template({"app": values[0]})
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": template}}


@pytest.mark.parametrize(("make", "count"), [(with_variables, 3000), (with_values, 30_000)])
@pytest.mark.parametrize(
    ("type_name", "writes"),
    [
        ("deployments.apps", "replicasets.apps"),
        ("replicasets.apps", "pods"),
        ("daemonsets.apps", "controllerrevisions.apps"),
        ("statefulsets.apps", "controllerrevisions.apps"),
    ],
)
async def test_no_step_grows_with_a_workload(
    tmp_path: Path, autojump_clock: MockClock, type_name: str, writes: str, make: Make, count: int
) -> None:
    async with open_bench(tmp_path, *KINDS) as bench:
        await bench.create(type_name, make("small", 1))
        await bench.rest()  # what is compiled at the first use does not count
        written = len(bench.names(writes))
        with counted_steps() as steps:
            await bench.create(type_name, make("large", count))
            await bench.until(lambda: len(bench.names(writes)) == 2 * written)
        assert steps.longest.lines < LONGEST, steps.longest
