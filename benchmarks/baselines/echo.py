"""The baseline of every request: `benchmarks.baselines.echo_server`, driven by the load of a get.

No server on this stack can cost less: the connection, TLS, parsing a request head, sending 1 kB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.baselines.certificate import write_certificate
from benchmarks.loads.job import Lane, run_lane
from benchmarks.options import ROOT, Options
from benchmarks.reports.measurement import Measurement, from_load
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.server_process import DidNotStart, free_port, fresh_folder
from benchmarks.workloads.reads import READERS

_TIMEOUT = 20.0
GET = {"plan": "repeat", "paths": ["/api/v1/namespaces/bench/configmaps/o-000001"]}


def measure_echo(options: Options, *, tls: bool) -> Measurement:
    sizes = options.sizes
    with echo_server(options, tls=tls) as endpoint:
        lane = Lane(endpoint, GET, READERS)
        result = run_lane(lane, sizes.seconds, rounds=sizes.rounds, warmup=sizes.warmup)
    return from_load("echo-tls" if tls else "echo-plain", result, READERS)


@contextmanager
def echo_server(options: Options, *, tls: bool) -> Iterator[Endpoint]:
    """A running echo; with TLS it speaks HTTP/2 with clients that offer it."""
    folder = fresh_folder(options.scratch, "echo")
    port = free_port()
    arguments = [sys.executable, "-m", "benchmarks.baselines.echo_server", "--port", str(port)]
    if tls:
        certificate, key = write_certificate(folder)
        arguments += ["--tls-cert", str(certificate), "--tls-key", str(key)]
    log = folder / "baseline.log"
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=out, stderr=out)
    try:
        wait_listening(process, log)
        yield Endpoint("127.0.0.1", port, tls, "", (process.pid,))
    finally:
        process.terminate()
        process.wait(_TIMEOUT)
        shutil.rmtree(folder, ignore_errors=True)


def wait_listening(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.perf_counter() + _TIMEOUT
    while time.perf_counter() < deadline and process.poll() is None:
        if b"listening on" in log.read_bytes():
            return
        time.sleep(0.01)
    raise DidNotStart(f"the baseline server did not listen:\n{log.read_text(errors='replace')[-2000:]}")
