"""The baseline of every request: `benchmarks.baselines.echo_server`, driven by the load of a get.

No server on this stack can cost less: the connection, TLS, parsing a request head, sending 1 kB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.baselines.certificate import write_certificate
from benchmarks.loads.job import Job, run_job
from benchmarks.options import ROOT, Options
from benchmarks.reports.measurement import Measurement, from_load
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.server_process import DidNotStart, free_port, fresh_folder
from benchmarks.workloads.reads import READERS

_TIMEOUT = 20.0


def measure_echo(options: Options, *, tls: bool) -> Measurement:
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
        return _measure(options, Endpoint("127.0.0.1", port, tls, "", (process.pid,)))
    finally:
        process.terminate()
        process.wait(_TIMEOUT)
        shutil.rmtree(folder, ignore_errors=True)


def _measure(options: Options, endpoint: Endpoint) -> Measurement:
    sizes = options.sizes
    plan = {"plan": "repeat", "paths": ["/api/v1/namespaces/bench/configmaps/o-000001"]}
    job = Job(endpoint, plan, READERS, seconds=sizes.seconds, rounds=sizes.rounds, warmup=sizes.warmup)
    return from_load("echo-tls" if endpoint.tls else "echo-plain", run_job(job), READERS)


def wait_listening(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.perf_counter() + _TIMEOUT
    while time.perf_counter() < deadline and process.poll() is None:
        if b"listening on" in log.read_bytes():
            return
        time.sleep(0.01)
    raise DidNotStart(f"the baseline server did not listen:\n{log.read_text(errors='replace')[-2000:]}")
