"""A server of ours with a folder of its own, for workloads that would change what others measure."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.workloads.workload import Skipped


@contextmanager
def own_server(server: MeasuredServer) -> Iterator[ServerProcess]:
    if server.process is None:
        raise Skipped("the harness did not start this server")
    options = server.options
    folder = fresh_folder(options.scratch, "custom")
    process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
    try:
        yield process
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)
