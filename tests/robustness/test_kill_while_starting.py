"""SIGKILL while a server starts: the next start succeeds, on a new folder and on a used one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.ports import reserve_port
from tests.robustness.cluster import Cluster
from tests.robustness.termination import under_load
from tests.robustness.trial import trial


def test_killed_while_starting(tmp_path: Path) -> None:
    with trial(tmp_path, "starting") as one:
        one.kill_when_exists(one.cluster.journal / "data.mdb")
        one.run_until(under_load(one.rng))
        one.kill_start(one.rng.random())
        one.finish()


@pytest.mark.slow
def test_killed_while_making_certificates(tmp_path: Path) -> None:
    secure = ("--secure-port", str(reserve_port()))
    with Cluster(tmp_path) as cluster:
        for made in ("pki", "pki/ca.key", "pki/server.crt", "pki/index.json"):
            cluster.spawn(flags=secure)
            cluster.kill_when_exists(cluster.data / made)
        cluster.start(flags=secure)
        assert stat.S_IMODE((cluster.data / "pki" / "ca.key").stat().st_mode) == 0o600
        assert "client-certificate" in (cluster.data / "admin.kubeconfig").read_text()
