"""What it costs to send a create to another process and its reply back: CPU of encoding and decoding both, in one."""

from __future__ import annotations

from typing import Any

import orjson

from benchmarks.decisions.samples import pod
from benchmarks.loads.plans import config_map
from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.in_process.ownership import measured
from benchmarks.workloads.workload import Workload
from rewound.actors.identity import User
from rewound.actors.message_encoding import decode_command, decode_reply, encode_command, encode_reply
from rewound.actors.messages import Create, Outcome, WriteContext, Written

USER = User("alice", "1", ("devs", "system:authenticated"))


def round_trip(work: str, document: Any, sizes: Sizes) -> Measurement:
    context = WriteContext(1, USER.name, "kubectl", "uid", "", USER, annotations={}, webhook_seconds={})
    command, written = Create("v1", "default", document, context), Written(orjson.dumps(document), True)

    def run() -> Outcome | Exception:
        arrived = decode_command(encode_command(command, 0.0), 0.0)
        return decode_reply(encode_reply(written, arrived.context), context)

    return measured(work, sizes, run)


MESSAGE_ENCODING: tuple[Workload[Sizes], ...] = (
    Workload(
        "message-config-map",
        "create of a 1 kB ConfigMap as messages, there and back",
        lambda sizes: round_trip("message-config-map", orjson.loads(config_map("a", 1)), sizes),
    ),
    Workload(
        "message-pod",
        "create of a Pod of three containers as messages, there and back",
        lambda sizes: round_trip("message-pod", pod(3), sizes),
    ),
)
