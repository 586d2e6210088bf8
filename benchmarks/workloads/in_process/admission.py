"""What admission costs a create when no webhook is asked, in this process: every default plugin is on.

It is all that a write does for admission: the request that plugins see, the changes and checks of the plugins that are
concerned, and the end of the request after the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import trio

from benchmarks.decisions.samples import definition, pod
from benchmarks.decisions.store import stored
from benchmarks.loads.plans import config_map
from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.in_process.ownership import measured
from benchmarks.workloads.workload import Workload
from rewound.actors.admission.chain import admit_ephemeral, validate_ephemeral
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.messages import Object
from rewound.actors.runtime.coroutines import without_waiting
from rewound.actors.runtime.write_context import WriteContext

CONTEXT = WriteContext(0, "user", "manager", "u", "xxxxx")


def admission_of(work: str, plural: str, document: Callable[[], Any], sizes: Sizes) -> Measurement:
    async def run() -> Measurement:
        async with stored() as store:
            await store.send("serviceaccounts", store.create("serviceaccounts", {"metadata": {}}), 1)
            kind = definition(plural)
            sent = kind.schema.decode_object(document()).object
            sent["metadata"].pop("namespace", None)
            if plural == "pods":
                sent["spec"]["serviceAccountName"] = "o0"
            chain = store.admission.chain(kind, CREATE, "")

            def admit() -> Object | None:
                request = AdmissionRequest(
                    CREATE, kind, "default", "a", "", sent, None, "user", False, CONTEXT
                )
                if chain:
                    without_waiting(admit_ephemeral(chain, request))
                    without_waiting(validate_ephemeral(chain, request))
                    request.complete(True)
                return request.object

            return measured(work, sizes, admit)

    return trio.run(run)


IN_PROCESS_ADMISSION: tuple[Workload[Sizes], ...] = (
    Workload(
        "admission-config-map",
        "admission of a new 1 kB ConfigMap, default plugins",
        partial(admission_of, "admission-config-map", "configmaps", lambda: orjson.loads(config_map("a", 1))),
    ),
    Workload(
        "admission-pod",
        "admission of a new Pod of three containers, default plugins",
        partial(admission_of, "admission-pod", "pods", lambda: pod(3)),
    ),
)
