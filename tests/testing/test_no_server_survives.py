"""No server outlives the process that wanted it, however that ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from gateway.cli.fixture.processes import module_command, module_environment

# Starts a server, prints the processes, and hangs.
PROGRAM = '''"""Hangs."""
import signal, sys
from pathlib import Path
from gateway.cli.fixture.processes import ProcessServers

servers = ProcessServers()
server = servers.start(Path(sys.argv[1]), "cluster", [])
print(servers._process.pid, server.pid, flush=True)
signal.pause()
'''


@pytest.mark.parametrize("killed", ["owner", pytest.param("zygote", marks=pytest.mark.slow)])
def test_killed_process_takes_its_servers_along(killed: str, tmp_path: Path) -> None:
    (tmp_path / "hanging_9d2c.py").write_text(PROGRAM)
    environment = module_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    folder = tmp_path / "data"
    folder.mkdir()
    command = module_command("hanging_9d2c", str(folder))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        try:
            zygote, server = map(int, owner.stdout.readline().split())
            ends = [os.pidfd_open(pid) for pid in (server, zygote)]
            os.kill(owner.pid if killed == "owner" else zygote, signal.SIGKILL)
            _await_end(*ends)
        finally:
            owner.kill()


def _await_end(*descriptors: int) -> None:
    """Wait until processes have ended, whether somebody reaps them or not."""
    for descriptor in descriptors:
        ended, _, _ = select.select([descriptor], [], [], 60)
        os.close(descriptor)
        assert ended, "it still runs"
