"""`rewound flight --lease`: of several recorders, the one that holds a Lease records."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from rewound.client.errors import ClientError, StatusError, UsageError
from rewound.journal.files.data_file import has_writer
from rewound.journal.log import Journal
from rewound.recording.flight.lease import DURATION, RENEW, RETRY, Lease, parse_lease
from rewound.testing.fixture.rewound import Rewound
from tests.recording.flight.test_clusters import eventually, free_ports

PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases"


class Server:
    """Leases of an API server, with the conflicts of a real one."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.lost: set[str] = set()  # who cannot reach it
        self.hangs: set[str] = set()

    def reached_by(self, name: str) -> Lease:
        async def send(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
            await trio.lowlevel.checkpoint()
            if name in self.hangs:
                await trio.sleep_forever()
            if name in self.lost:
                raise ClientError("connection refused")
            if path == "/apis":
                return {"groups": [{"name": "apps"}, {"name": "coordination.k8s.io"}]}
            if method == "GET":
                assert path == f"{PATH}/flight"
                if self.lease is None:
                    raise StatusError(404, "NotFound", "not found")
                return copy.deepcopy(self.lease)
            assert body is not None
            if method == "POST" and (path != PATH or self.lease is not None):
                raise StatusError(409, "AlreadyExists", "already exists")
            if method == "PUT" and body["metadata"].get("resourceVersion") != str(self.version):
                raise StatusError(409, "Conflict", "Operation cannot be fulfilled on")
            self.version += 1
            self.lease = copy.deepcopy(body)
            self.lease["metadata"]["resourceVersion"] = str(self.version)
            return self.lease

        return Lease(send, "ops", "flight", name)


async def test_another_one_takes_it_when_it_is_not_renewed(autojump_clock: MockClock) -> None:
    server = Server()
    one, other = server.reached_by("one"), server.reached_by("other")
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run_one() -> None:
            with scope:
                await one.run()

        nursery.start_soon(run_one)
        await trio.sleep(1)
        nursery.start_soon(other.run)
        await trio.sleep(100)
        assert (one.held, other.held, other.holder) == (True, False, "one")
        assert server.lease is not None
        spec = server.lease["spec"]
        assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (DURATION, 0)
        assert spec["acquireTime"] < spec["renewTime"] and spec["renewTime"].endswith("Z")
        scope.cancel()  # as if it were killed
        killed = trio.current_time()
        await other.wait(held=True)
        assert DURATION - RETRY <= trio.current_time() - killed <= DURATION + 2 * RETRY
        assert (server.lease["spec"]["holderIdentity"], server.lease["spec"]["leaseTransitions"]) == (
            "other",
            1,
        )
        # Who ends in order lets others take it at once.
        nursery.start_soon(one.run)
        await one.wait_taken()
        await other.release()
        assert server.lease["spec"]["holderIdentity"] == ""
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["lost", "hangs"])
async def test_who_cannot_renew_it_stops_before_another_one_takes_it(
    how: str, autojump_clock: MockClock
) -> None:
    server = Server()
    one, other = server.reached_by("one"), server.reached_by("other")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await one.wait(held=True)
        nursery.start_soon(other.run)
        await trio.sleep(60)
        getattr(server, how).add("one")
        began = trio.current_time()
        await one.wait(held=False)
        assert trio.current_time() - began <= RENEW
        assert not other.held
        await other.wait(held=True)
        assert not one.held and trio.current_time() - began >= DURATION - RETRY
        getattr(server, how).clear()
        await one.wait_taken()
        assert one.holder == "other" and not one.held
        nursery.cancel_scope.cancel()


async def test_at_most_one_holds_it_whatever_fails(autojump_clock: MockClock) -> None:
    server, random = Server(), Random(46)
    names = ("one", "other", "third")
    leases = [server.reached_by(name) for name in names]
    held = 0
    async with trio.open_nursery() as nursery:
        for one in leases:
            nursery.start_soon(one.run)
        for _ in range(3000):
            await trio.sleep(random.random())
            if random.random() < 0.1:
                chosen = random.choice((server.lost, server.hangs))
                chosen.clear()
                chosen.update(name for name in names if random.random() < 0.4)
            holders = [one for one in leases if one.held]
            assert len(holders) <= 1
            held += len(holders)
        nursery.cancel_scope.cancel()
    assert held > 500


async def test_a_lease_that_others_wrote(autojump_clock: MockClock) -> None:
    for spec, seconds in (
        ({}, RETRY),
        (None, RETRY),
        ({"holderIdentity": "", "leaseTransitions": 2**31 - 2}, RETRY),
        ({"holderIdentity": "x", "leaseDurationSeconds": 1, "renewTime": "9999-01-01T00:00:00Z"}, 3 * RETRY),
        ({"holderIdentity": "x"}, DURATION + RETRY),
    ):
        server = Server()
        server.version, server.lease = 7, {"metadata": {"name": "flight", "resourceVersion": "7"}}
        if spec is not None:
            server.lease["spec"] = spec
        one = server.reached_by("one")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            with trio.fail_after(seconds + 0.1):
                await one.wait(held=True)
            nursery.cancel_scope.cancel()


def test_names_of_leases() -> None:
    assert parse_lease("ops/flight") == ("ops", "flight")
    for wrong in ("flight", "/flight", "ops/", "a/b/c", ""):
        with pytest.raises(UsageError, match="write NAMESPACE/NAME"):
            parse_lease(wrong)


def test_a_folder_in_use_is_waited_for(tmp_path: Path) -> None:
    assert not has_writer(tmp_path / "journal")
    journal = Journal.open(tmp_path / "journal", dialect="kubernetes")
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from rewound.journal.files.data_file import has_writer; "
            "print(has_writer(Path(sys.argv[1])))",
            str(tmp_path / "journal"),
        ],
        capture_output=True,
        timeout=60,
    )
    assert found.stdout.strip() == b"True", found.stderr
    journal.close()
    assert not has_writer(tmp_path / "journal")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_a_standby_takes_over(rewound: Rewound, tmp_path: Path, how: signal.Signals) -> None:
    folder, log, port = tmp_path / "out", tmp_path / "log", free_ports(2)
    command = [
        sys.executable,
        "-m",
        "rewound",
        "flight",
        str(folder),
        "--kinds=configmaps",
        "--secure-port=0",
    ]
    command += [f"--kubeconfig={rewound.kubeconfig}", "--lease=default/flight", "--page-for-everyone"]
    maps = "/api/v1/namespaces/default/configmaps"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("ab") as output:
            for number in range(2):
                flags = [*command, f"--insecure-port={port + number}"]
                processes.append(subprocess.Popen(flags, stdout=output, stderr=output))
                url = f"http://127.0.0.1:{port + number}"
                wanted = 503 if number else 200
                eventually(
                    lambda url=url, wanted=wanted: httpx.get(f"{url}/readyz").status_code == wanted, log
                )  # type: ignore[misc]
            url = f"http://127.0.0.1:{port + 1}"
            assert httpx.get(f"{url}/livez").status_code == 200
            assert " records" in httpx.get(f"{url}/readyz").json()["message"]
            assert httpx.get(f"{url}{maps}").status_code == 503
            rewound.request("POST", maps, {"metadata": {"name": "before"}})
            processes[0].send_signal(how)
            processes[0].wait(60)
            rewound.request("POST", maps, {"metadata": {"name": "meanwhile"}})
            eventually(lambda: httpx.get(f"{url}{maps}/meanwhile").status_code == 200, log, processes[1])
            assert httpx.get(f"{url}{maps}/before").status_code == 200
            group = next(
                one["name"]
                for one in rewound.request("GET", "/apis")["groups"]
                if one["name"].startswith("coordination.")
            )
            lease = rewound.request("GET", f"/apis/{group}/v1/namespaces/default/leases/flight")
            assert lease["spec"]["leaseTransitions"] == 1
            processes[1].terminate()
            assert processes[1].wait(60) == 0, log.read_text()
    finally:
        for process in processes:
            process.kill()
            process.wait(30)
    assert "Traceback" not in log.read_text()
