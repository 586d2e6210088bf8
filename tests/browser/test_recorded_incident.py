"""A flight recorder beside a running cluster explains a failing rollout by one click, after kill -9 of both.

Real processes: a server with simulated nodes, whose minutes pass in seconds, and a recorder beside it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from rewound.recording.record.gaps import STOPPED, gaps_in
from tests.browser.chromium import open_page
from tests.browser.journal_page import LOADS, sign_in
from tests.gateway.api import ADMIN
from tests.ports import reserve_port

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
CREDENTIALS = {"authorization": f"Bearer {ADMIN}"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
SUSPECTS = "[...document.querySelectorAll('#headline button')].find((one) => one.innerText === 'Suspects')"
FIRST = "document.querySelector('.suspects > li').innerText"


@dataclass
class Place:
    """A cluster and its recorder, whose processes are killed and started again with the same folders and ports."""

    folder: Path
    server_port: int
    page_port: int

    @property
    def server_command(self) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{ADMIN},admin,1,"system:masters"\n')
        flags = ["--dialect=kubernetes", "--nodes=3", f"--token-auth-file={tokens}"]
        flags += [f"--data-dir={self.folder / 'cluster'}", f"--secure-port={self.server_port}"]
        return ["serve", *flags]

    @property
    def recorder_command(self) -> list[str]:
        kubeconfig = str(self.folder / "cluster" / "admin.kubeconfig")
        flags = ["--kubeconfig", kubeconfig, "--secure-port=0", f"--insecure-port={self.page_port}"]
        return ["flight", str(self.folder / "recording"), *flags]

    @contextmanager
    def running(self, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A process that is killed at the end."""
        with (
            (self.folder / f"{command[0]}.log").open("ab") as log,
            subprocess.Popen([sys.executable, "-m", "rewound", *command], stdout=log, stderr=log) as process,
        ):
            try:
                yield process
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(60)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        response = self._send(self.server_port, method, path, body, headers=headers)
        assert response.is_success, response.text
        return response.json()

    def _send(
        self,
        port: int,
        method: str,
        path: str,
        body: Any = None,
        *,
        credentials: Mapping[str, str] = CREDENTIALS,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        scheme = "https" if port == self.server_port else "http"
        sent = {"user-agent": "kubectl/v1.30", **credentials, **(headers or {})}
        # The certificate is that of the server under test.
        return httpx.request(
            method, f"{scheme}://127.0.0.1:{port}{path}", json=body, headers=sent, verify=False, timeout=60
        )

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        for _ in range(600):
            try:
                if holds():
                    return
            except (httpx.HTTPError, AssertionError):
                pass  # it starts
            time.sleep(0.25)
        logs = "".join(one.read_text()[-3000:] for one in self.folder.glob("*.log"))
        pytest.fail(f"{what}: {logs}")

    def serves(self, port: int, path: str = "/readyz") -> bool:
        """By a probe without credentials, which nobody can be asked about while the server is away."""
        return self._send(port, "GET", path, credentials={}).status_code == 200

    def has_recorded(self, check: Callable[[Any], bool]) -> bool:
        """Whether the recording has pods for which that holds."""
        response = self._send(self.page_port, "GET", PODS)
        assert response.status_code == 200, response.text  # until the cluster can be asked again
        return check(response.json()["items"])


def deployment() -> dict[str, Any]:
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    return {"metadata": {"name": "web"}, "spec": spec}


def run_images(pods: list[Any]) -> bool:
    return len(pods) >= 2 and all(one["status"]["phase"] == "Running" for one in pods)


def cannot_pull(pods: list[Any]) -> bool:
    states = [state for one in pods for state in one["status"].get("containerStatuses", ())]
    return any(one["state"].get("waiting", {}).get("reason") == "ImagePullBackOff" for one in states)


@pytest.mark.timeout(600)
async def test_one_click_explains_a_failing_rollout_after_kills(chromium: str, tmp_path: Path) -> None:
    place = Place(tmp_path, reserve_port(), reserve_port())
    await trio.to_thread.run_sync(happen, place)
    with place.running(place.server_command), place.running(place.recorder_command):
        await trio.to_thread.run_sync(
            place.wait_for, "the recorder serves", lambda: place.serves(place.page_port)
        )
        async with open_page(chromium) as page:
            await page.go(f"http://127.0.0.1:{place.page_port}/debug/journal/")
            await sign_in(page)
            await page.wait(f"{LOADS} > 0")
            await page.wait(SUSPECTS)
            await page.run(f"{SUSPECTS}.click()")
            await page.wait("document.querySelector('.suspects > li')")
            first = await page.run(FIRST)
            assert "deployments.apps default/web was changed" in first, first
            assert "web:1 → web:typo" in first and "with kubectl" in first, first
    gaps = gaps_in(tmp_path / "recording")
    assert STOPPED in {one.why for one in gaps} and not any(one.missing for one in gaps), gaps


def happen(place: Place) -> None:
    """A rollout fails; recorder and server are killed before, while and after it does."""
    with place.running(place.server_command):
        place.wait_for("the server starts", lambda: place.serves(place.server_port))
        with place.running(place.recorder_command):
            place.wait_for("the recorder starts", lambda: place.serves(place.page_port))
            for number in range(3):
                bad = {"metadata": {"annotations": {"sim/bad-images": "*:typo"}}}
                place.wait_for(
                    "there is a node",
                    lambda number=number, bad=bad: bool(
                        place.send("PATCH", f"/api/v1/nodes/node-{number}", bad, **STRATEGIC)
                    ),
                )
            place.send("POST", DEPLOYMENTS, deployment())
            place.wait_for("the pods run", lambda: place.has_recorded(run_images))
        typo = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:typo"}]}}}}
        with place.running(place.recorder_command):
            place.wait_for("the recorder goes on", lambda: place.serves(place.page_port))
            place.send("PATCH", f"{DEPLOYMENTS}/web", typo, **STRATEGIC)
            place.wait_for("the rollout fails", lambda: place.has_recorded(cannot_pull))
    with place.running(place.recorder_command):  # without the server
        place.wait_for("the recorder serves alone", lambda: place.serves(place.page_port, "/livez"))
        with place.running(place.server_command):
            place.wait_for("the server goes on", lambda: place.serves(place.server_port))
            place.wait_for("it is still failing", lambda: place.has_recorded(cannot_pull))
