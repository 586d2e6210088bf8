"""Starts `send_loop_server`, the bare loop of sends, with a given message size, plain or TLS."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.baselines.certificate import write_certificate
from benchmarks.baselines.echo import wait_listening
from benchmarks.options import ROOT, Options
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.server_process import free_port, fresh_folder

_TIMEOUT = 20.0


@contextmanager
def bare_loop(options: Options, size: int, *, tls: bool) -> Iterator[Endpoint]:
    folder = fresh_folder(options.scratch, "send-loop")
    port = free_port()
    arguments = [
        sys.executable,
        "-m",
        "benchmarks.baselines.send_loop_server",
        "--port",
        str(port),
        "--bytes",
        str(size),
    ]
    if tls:
        certificate, key = write_certificate(folder)
        arguments += ["--tls-cert", str(certificate), "--tls-key", str(key)]
    log = folder / "send-loop.log"
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=out, stderr=out)
    try:
        wait_listening(process, log)
        yield Endpoint("127.0.0.1", port, tls, "", (process.pid,))
    finally:
        process.terminate()
        process.wait(_TIMEOUT)
        shutil.rmtree(folder, ignore_errors=True)
