"""A store with simulated nodes, without HTTP and in virtual time, for the tests beside this file.

async with simulated_cluster(tmp_path, nodes=2) as cluster:
    await cluster.create("pods", "p", content=bound_to("node-0"))
    await cluster.wait_until_idle()
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import trio

from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import NAME, SimulatedNodes
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.workloads.built_in import Workloads
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane
from tests.actors.controllers.signing_requests import controller_context

LEASES = "leases.coordination.cluster.io"


@asynccontextmanager
async def simulated_cluster(
    path: Path, nodes: int | None = None, seed: int = 1, **options: Any
) -> AsyncIterator[ControlPlane]:
    """`options` are those of WorkloadOptions."""
    async with (
        open_control_plane(path, controllers=False) as cluster,
        running(cluster, simulated(cluster, nodes, seed, **options)),
    ):
        yield cluster


def simulated(cluster: ControlPlane, nodes: int | None = None, seed: int = 1, **options: Any) -> Workloads:
    cluster.write_contexts = WriteContexts(cluster.clock, Random(seed))
    workloads = WorkloadOptions(**options)
    context = controller_context(cluster, enabled=frozenset({NAME}), workloads=workloads)
    return Workloads(context, [(NAME, partial(SimulatedNodes, count=nodes))])


@asynccontextmanager
async def running(cluster: ControlPlane, workloads: Workloads) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for name, task in workloads.tasks:
            nursery.start_soon(cluster.supervisor.keep, name, task)
        await cluster.wait_until_idle()
        yield
        nursery.cancel_scope.cancel()


def bound_to(node: str, **spec: Any) -> Object:
    """The content of a pod that is bound to a node."""
    return {"spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec}}
