"""`make hops` counts what a request passes: files and functions of ours, in four groups.

A reader who follows a request pays for every hop, so this is a figure like the others (docs/benchmarks). The groups:

- `request`: what is called to serve it, by its connection and by the actor of its resource type;
- `commit`: what the committer calls, up to the replies to the writers;
- `followers`: what the feed calls with the new events, and other tasks that run meanwhile;
- `around`: instruments of the event loop, and coroutines that were called before the request came and only go on.

A server runs in a child process; a signal makes it record the calls of the thread of its event loop while it serves
one request. Each get is for an object that nobody has asked for before. What all rounds have in common is counted, so
that a controller that happens to run in one of them is not.
"""

from __future__ import annotations

import argparse
import base64
import dis
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from http.client import HTTPSConnection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PORT = 16871
ROUNDS = 7
WARM = 30
PATH = "/api/v1/namespaces/default/configmaps"
WEBHOOKS = "/apis/admissionregistration.cluster.io/v1/validatingwebhookconfigurations"

REQUEST, COMMIT, FOLLOWERS, AROUND = GROUPS = ("request", "commit", "followers", "around")
COMMITTER, FEED = "actors/store/committer.py", "actors/store/feed.py"
SERVES_REQUESTS = ("gateway/connections/", "actors/resource/")
INSTRUMENTS = ("before_io_wait", "after_io_wait")

Hops = Counter[tuple[str, str, str]]  # calls by group, file and function


def _serve(folder: Path) -> int:
    """The child: serve, and write the recorded calls after each recording."""
    import rewound

    root = f"{Path(str(rewound.__file__)).parent}{os.sep}"
    calls: Hops = Counter()

    def record(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            group = AROUND if frame.f_lasti > _start(code) else _group(frame, root)
            calls[group, code.co_filename.removeprefix(root), code.co_qualname] += 1

    def begin(number: int, frame: FrameType | None) -> None:
        calls.clear()
        (folder / "began").touch()
        sys.setprofile(record)

    def end(number: int, frame: FrameType | None) -> None:
        sys.setprofile(None)
        text = json.dumps([[*name, count] for name, count in calls.items()])
        (folder / "calls.new").write_text(text)
        (folder / "calls.new").rename(folder / "calls")

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    from rewound.cli.main import main as rewound

    return rewound(["serve", "--data-dir", str(folder / "data"), "--secure-port", str(PORT)])


@cache
def _start(code: CodeType) -> int:
    """Where a function begins; a resumed coroutine is after that."""
    return next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")


def _group(frame: FrameType, root: str) -> str:
    """To which group a call belongs, by the calls around it."""
    files = []
    caller: FrameType | None = frame
    while caller is not None:
        code = caller.f_code
        if code.co_name in INSTRUMENTS:
            return AROUND
        if code.co_filename.startswith(root):
            files.append(code.co_filename.removeprefix(root))
        caller = caller.f_back
    if COMMITTER in files:
        return FOLLOWERS if FEED in files else COMMIT
    return REQUEST if any(file.startswith(SERVES_REQUESTS) for file in files) else FOLLOWERS


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


class Recorder:
    def __init__(self, folder: Path, server: subprocess.Popen[bytes]) -> None:
        self._folder, self._server = folder, server
        pki = folder / "data" / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._connection = HTTPSConnection("127.0.0.1", PORT, context=context)
        self._made = self._asked = 0

    def prepare(self) -> None:
        """Create the objects that are read and changed: for the gets as many as there are gets."""
        self.create("kept")
        for number in range(WARM + ROUNDS):
            self.create(f"unasked-{number}")

    def get(self) -> None:
        self._ask("GET", f"{PATH}/unasked-{self._asked}", 200)
        self._asked += 1

    def list(self) -> None:
        self._ask("GET", f"{PATH}?limit=10", 200)

    def create(self, name: str = "") -> None:
        self._made += 1
        name = name or f"made-{self._made}"
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"k": "v" * 900},
        }
        self._ask("POST", PATH, 201, json.dumps(document))

    def create_through_webhook(self) -> None:
        self._made += 1
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"made-{self._made}"}}
        self._ask("POST", PATH.replace("configmaps", "secrets"), 201, json.dumps(document))

    def patch(self) -> None:
        self._made += 1
        body = json.dumps({"data": {"x": str(self._made)}})
        self._ask("PATCH", f"{PATH}/kept", 200, body, "application/merge-patch+json")

    def apply(self) -> None:
        self._made += 1
        document = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": str(self._made)}}
        path = f"{PATH}/kept?fieldManager=me&force=true"
        self._ask("PATCH", path, 200, json.dumps(document), "application/apply-patch+yaml")

    def configure_webhook(self, port: int, ca_bundle: str) -> None:
        """Have a webhook validate new Secrets."""
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
        hook = {
            "name": "hops.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/0", "caBundle": ca_bundle},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [rule],
        }
        document = json.dumps({"metadata": {"name": "hops"}, "webhooks": [hook]})
        self._ask("POST", WEBHOOKS, 201, document)

    def _ask(
        self, method: str, path: str, status: int, body: str | None = None, media: str = "application/json"
    ) -> None:
        self._connection.request(method, path, body, {"Content-Type": media} if body else {})
        response = self._connection.getresponse()
        data = response.read()
        if response.status != status:
            raise SystemExit(f"{method} {path}: {response.status} {data.decode()}")

    def record(self, request: Any) -> Hops:
        for _ in range(WARM):
            request()
        rounds: list[Hops] = []
        for _ in range(ROUNDS):
            for name in ("began", "calls"):
                (self._folder / name).unlink(missing_ok=True)
            time.sleep(0.05)  # work left over from the previous request
            self._server.send_signal(signal.SIGUSR1)
            _wait_for(self._folder / "began")
            request()
            self._server.send_signal(signal.SIGUSR2)
            _wait_for(self._folder / "calls")
            found = json.loads((self._folder / "calls").read_text())
            rounds.append(Counter({(group, file, name): count for group, file, name, count in found}))
        common = rounds[0]
        for other in rounds[1:]:
            common &= other
        called = {(file, function) for group, file, function in common if group != AROUND}
        return Counter({one: n for one, n in common.items() if one[0] != AROUND or one[1:] not in called})


@contextmanager
def running() -> Iterator[Recorder]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, str(Path(__file__).resolve()), "--child", name]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            if not server.stdout.readline():
                raise SystemExit("the server did not start")
            time.sleep(3)  # it imports in the background what its first requests do not need
            yield Recorder(folder, server)
        finally:
            server.terminate()
            server.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="count the files and functions that a request passes")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="print every function, too")
    options = parser.parse_args()
    if options.child is not None:
        return _serve(options.child)
    # The child imports nothing but the server.
    from benchmarks.baselines.certificate import write_certificate
    from benchmarks.servers.webhook_server import webhook_server

    with running() as recorder, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        certificate, key = write_certificate(Path(name), "127.0.0.1")
        recorder.prepare()
        print("| files, functions | its own path | commit | followers | around it |\n|---|---|---|---|---|")
        writes = (recorder.create, recorder.patch, recorder.apply, recorder.create_through_webhook)
        for request in (recorder.get, recorder.list, *writes):
            if request == recorder.create_through_webhook:
                port = stack.enter_context(webhook_server(certificate, key))
                recorder.configure_webhook(port, base64.b64encode(certificate.read_bytes()).decode())
            hops = recorder.record(request)
            groups = [[one[1:] for one in hops if one[0] == group] for group in GROUPS]
            cells = [f"{len({file for file, _ in found})}, {len(found)}" for found in groups]
            print(f"| {request.__name__.replace('_', ' ')} | {' | '.join(cells)} |", flush=True)
            if options.show:
                for (group, file, function), count in sorted(hops.items()):
                    print(f"    {group} {file} {function} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
