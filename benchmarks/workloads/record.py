"""`rewound record` of a server with many objects: how long it takes, and what it costs both sides.

The recorder is a separate process; a start of Python is part of its time, and so is the second for which it waits for
changes that are under way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.loads.job import Lane, LoadFailed, run_lane
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.measured_server import FILL_CONNECTIONS, MeasuredServer
from benchmarks.servers.server_process import ServerProcess, fresh_folder, server_command
from benchmarks.workloads.workload import Skipped, Workload

FILL_SECONDS = 600.0
PATH = "/api/v1/namespaces/default/configmaps"


def measure(server: MeasuredServer) -> Measurement:
    if server.process is None:
        raise Skipped("the harness did not start this server")
    options, count = server.options, server.sizes.recorded
    folder = fresh_folder(options.scratch, "record")
    try:
        process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
        try:
            plan = {"plan": "create", "path": PATH, "prefix": "o-", "total": count}
            filled = run_lane(Lane(process.endpoint, plan, FILL_CONNECTIONS), FILL_SECONDS)
            if filled.operations != count:
                raise LoadFailed(f"{filled.operations} of {count} objects were created: {filled.first_error}")
            return _record(process, server_command(options.rewound), folder, count)
        finally:
            process.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _record(process: ServerProcess, command: list[str], folder: Path, count: int) -> Measurement:
    arguments = [
        *command,
        "record",
        *("--server", process.endpoint.url),
        *("--token", process.endpoint.token),
        *("--certificate-authority", str(folder / "data" / "pki" / "ca.crt")),
        *("--duration", "0"),
        str(folder / "recorded"),
    ]
    before, began = cpu_seconds(process.endpoint.pids), time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as recorder:
        assert recorder.stderr is not None
        said = recorder.stderr.read().decode()
        _, status, usage = os.wait4(recorder.pid, 0)
        recorder.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if recorder.returncode:
        raise LoadFailed(f"the recorder ended with {recorder.returncode}: {said[-500:]}")
    figures = {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "cpu_us": round((cpu_seconds(process.endpoint.pids) - before) / count * 1e6, 1),
    }
    return Measurement("record", figures, {"recorder": said.strip().splitlines()[-1:]})


RECORD: tuple[Workload[MeasuredServer], ...] = (
    Workload("record", "record a server with {recorded} objects", measure),
)
