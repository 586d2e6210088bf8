"""Records several clusters: a process for each, and a front page that says what is wrong where.

    FOLDER/prod         the recording of a cluster, by a process of its own with a port of its own
    FOLDER/kubeconfig   a context for each of them
    FOLDER/pki          the certificate of the front page

A process for each, because a cluster with 500 changes a second needs a core, and a cluster that hangs, fills its memory
or ends its recorder must not stop the others. A process that ends is started again, after pauses of up to 30 seconds.

The front page has no rights of its own. It forwards a request about a cluster, with the token that its user gave for
this cluster, to the recording of this cluster, and to no other: each decides what the user sees. Everybody who reaches
it sees the names, and whether each recorder responds. Rejected: one token for all. Whoever runs a cluster may read the
tokens that are sent to it for review.
"""

from __future__ import annotations

import base64
import logging
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import trio
import yaml

from rewound.actors.certificates.kubeconfig import server_url
from rewound.actors.certificates.pki import write_atomically
from rewound.actors.certificates.trust import verifying
from rewound.actors.rewind.difference import escaped
from rewound.actors.runtime.threads import run_in_thread
from rewound.client.errors import UsageError
from rewound.gateway.message import Request, Response
from rewound.gateway.pipeline.route import TIMELINE_PATH
from rewound.gateway.settings.server_config import host_and_port
from rewound.gateway.settings.settings import Addresses
from rewound.journal.files.private import private_folder, read_regular
from rewound.recording.flight.small_server import failure, respond, serve_paths
from rewound.rewind.page.files import HEADERS, lead_to, respond_file

logger = logging.getLogger(__name__)

KUBECONFIG: Final = "kubeconfig"  # in the folder
MOST: Final = 50  # clusters of one command: each is a process with some hundred megabytes
PATH: Final = "/clusters/"
STARTING, RUNNING, ENDED, HANGS = "starting", "running", "ended", "no response"
STATES: Final = f"{PATH}api/clusters"

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_RECOVERED: Final = 60.0  # seconds after which a process that ends is tried again at once
_LOOK: Final = 5.0  # seconds between two looks at a process
_STOP_SECONDS: Final = 75.0  # a server has a minute for its running requests
_LINE: Final = 4096  # characters of a line of a process
_AT_ONCE: Final = 8  # requests about one cluster
_MOST: Final = 4 << 20  # bytes of a response
# What the front page reads of a recording, and for how long it waits: the first look for what fails, in the last hour,
# reads the journal.
_READS: Final = {"flight": ("/debug/rewound/flight", 5.0), "failing": (f"{TIMELINE_PATH}/highlights", 30.0)}
_FILES: Final = Path(__file__).parent / "front"


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    kubeconfig: Path | None  # None: as without --kubeconfig
    context: str
    folder: Path
    secure: int  # ports; 0: off
    plain: int


def parse_clusters(texts: Sequence[str], folder: Path, ports: tuple[int, int]) -> list[Cluster]:
    """The clusters of NAME=KUBECONFIG[@CONTEXT], each with the port after that of the one before. Raises UsageError."""
    found: list[Cluster] = []
    for number, text in enumerate(texts, start=1):
        name, equals, place = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(
                f"--cluster: {escaped(text)!r} has no name; write NAME=KUBECONFIG or NAME=KUBECONFIG@CONTEXT, with a "
                "name of a-z, 0-9 and -"
            )
        if any(one.name == name for one in found):
            raise UsageError(f"--cluster: there are two of the name {name}; each is a folder of its own")
        kubeconfig, context = _parse_place(name, place)
        secure, plain = (port + number if port else 0 for port in ports)
        if max(secure, plain) > 65535:
            raise UsageError(
                f"--secure-port: the port of cluster {name} would be {max(secure, plain)}; each cluster has the port "
                "after that of the one before, so begin with a smaller one"
            )
        found.append(Cluster(name, kubeconfig, context, folder / name, secure, plain))
    if all(ports) and abs(ports[0] - ports[1]) <= len(found):
        raise UsageError(
            f"--secure-port and --insecure-port: {ports[0]} and {ports[1]} are too close; {len(found)} clusters have "
            "the ports after each"
        )
    if len(found) > MOST:
        raise UsageError(f"--cluster: {len(found)} are more than {MOST}; divide them among several commands")
    return found


def _parse_place(name: str, place: str) -> tuple[Path | None, str]:
    """FILE or FILE@CONTEXT; both may contain an @, and the file is the longest beginning that exists."""
    if not place:
        return None, ""
    parts = place.split("@")
    for size in range(len(parts), 0, -1):
        file = Path("@".join(parts[:size])).expanduser()
        if file.is_file():
            return file, "@".join(parts[size:])
    raise UsageError(f"--cluster {name}: there is no file {escaped(place)}; name a kubeconfig file")


class Recording:
    """The process that records one cluster, and how it is reached."""

    def __init__(self, cluster: Cluster, command: Sequence[str]) -> None:
        self.cluster = cluster
        self.state = STARTING
        self.limit = trio.CapacityLimiter(_AT_ONCE)
        self._command = command
        self._last_line = ""
        self._kubeconfig = b""
        self._client: httpx.AsyncClient | None = None

    def document(self) -> dict[str, Any]:
        """What everybody sees."""
        cluster = self.cluster
        return {
            "name": cluster.name,
            "state": self.state,
            "securePort": cluster.secure,
            "insecurePort": cluster.plain,
        }

    async def run(self) -> None:
        """Keep a process running, until cancelled; then it ends in order."""
        pause = _FIRST_PAUSE
        while True:
            started = trio.current_time()
            self.state = STARTING
            try:
                code = await self._run_once()
            except OSError as error:
                code, self._last_line = 1, str(error)
            self.state = ENDED
            if trio.current_time() - started >= _RECOVERED:
                pause = _FIRST_PAUSE
            logger.warning(
                "%s: the recorder ended with code %d; it starts again in %g s", self.cluster.name, code, pause
            )
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_once(self) -> int:
        # Its stdin ends when this process ends, however that is; then it stops.
        process = await trio.lowlevel.open_process(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process alone, which stops all in order
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look)
                assert process.stdout is not None
                await self._pass_on(process.stdout)
                code = await process.wait()
                nursery.cancel_scope.cancel()
            return code
        finally:
            with trio.CancelScope(shield=True):
                await self._stop(process)

    async def _stop(self, process: trio.Process) -> None:
        if process.returncode is None:
            process.terminate()
            async with trio.open_nursery() as nursery:
                if process.stdout is not None:
                    nursery.start_soon(self._pass_on, process.stdout)  # else it may wait for its output
                with trio.move_on_after(_STOP_SECONDS):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                nursery.cancel_scope.cancel()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await stream.aclose()

    async def _pass_on(self, output: trio.abc.ReceiveStream) -> None:
        """Print what the process prints, with the name of the cluster."""
        rest = b""
        while data := await output.receive_some(65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._print(line)
            if len(rest) > _LINE:
                self._print(rest)
                rest = b""
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        text = line.decode(errors="replace")[:_LINE].rstrip()
        if text:
            print(f"[{self.cluster.name}] {escaped(text)}", flush=True)

    async def _look(self) -> None:
        """Note whether it responds, whatever it responds."""
        while True:
            try:
                await self.get("/livez", 3.0, {})
                self.state = RUNNING
            except (httpx.HTTPError, OSError, trio.TooSlowError):
                if self.state != STARTING:
                    self.state = HANGS
            await trio.sleep(_LOOK if self.state != STARTING else 0.5)

    async def get(self, path: str, seconds: float, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body of a response, cut after some megabytes."""
        with trio.fail_after(seconds):
            client = await self._connected()
            async with client.stream("GET", path, headers=dict(headers)) as response:
                body = b""
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > _MOST:
                        raise httpx.DecodingError(f"{path} is larger than {_MOST} bytes")
                return response.status_code, body

    async def _connected(self) -> httpx.AsyncClient:
        """A client without credentials, which trusts the recording's own CA."""
        found = await run_in_thread(self._read)
        if self._client is None or found != self._kubeconfig:
            before, self._kubeconfig = self._client, found
            url, authority = (
                _where(found) if self.cluster.secure else (f"http://127.0.0.1:{self.cluster.plain}", b"")
            )
            self._client = httpx.AsyncClient(
                base_url=url,
                verify=verifying(authority or None),
                timeout=None,
                headers={"accept-encoding": "identity"},
            )
            if before is not None:
                await before.aclose()
        return self._client

    def _read(self) -> bytes:
        return (self.cluster.folder / "admin.kubeconfig").read_bytes() if self.cluster.secure else b""

    @property
    def kubeconfig(self) -> bytes:
        return self._kubeconfig

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def _where(kubeconfig: bytes) -> tuple[str, bytes]:
    """The URL and the CA in a kubeconfig file that we wrote."""
    cluster = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
    return cluster["server"], base64.b64decode(cluster["certificate-authority-data"])


class Clusters:
    """The processes of all clusters, and the front page."""

    def __init__(
        self,
        folder: Path,
        clusters: Sequence[Cluster],
        command: Callable[[Cluster], Sequence[str]],
        *,
        bind: str,
        ports: tuple[int, int],
        for_everyone: bool,
    ) -> None:
        """`command` starts the recorder of a cluster. `ports` of the front page: HTTPS, and plain HTTP; 0 is off."""
        self.folder = folder
        self.recordings = {one.name: Recording(one, command(one)) for one in clusters}
        self._bind, self._ports = bind, ports
        self._for_everyone = for_everyone
        self._written = b""

    async def run(self, ready: Callable[[Addresses], None], stop: trio.Event) -> None:
        """Record and serve until `stop` is set. Raises CannotListen, CertificateError and OSError."""
        private_folder(self.folder)
        async with trio.open_nursery() as nursery:
            addresses: Addresses = await nursery.start(
                serve_paths, self.handle, self._bind, self._ports, self.folder / "pki", stop
            )
            async with trio.open_nursery() as recording:
                for one in self.recordings.values():
                    recording.start_soon(one.run)
                recording.start_soon(self._keep_kubeconfig)
                ready(addresses)
                await stop.wait()
                recording.cancel_scope.cancel()
            for one in self.recordings.values():
                await one.aclose()

    async def _keep_kubeconfig(self) -> None:
        """Keep a file with a context for every cluster that has been recorded."""
        while True:
            await run_in_thread(self._write_kubeconfig)
            await trio.sleep(1)

    def _write_kubeconfig(self) -> None:
        lists: dict[str, list[dict[str, Any]]] = {"clusters": [], "contexts": [], "users": []}
        for name in self.recordings:
            try:
                found = yaml.safe_load(read_regular(self.folder / name / "admin.kubeconfig"))
                cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
            except (OSError, ValueError, yaml.YAMLError, TypeError, LookupError):
                continue  # it is not there yet, or not ours
            lists["clusters"].append({"name": name, "cluster": cluster})
            lists["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
            lists["users"].append({"name": name, "user": user})
        if not lists["contexts"]:
            return
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": lists["contexts"][0]["name"],
            **lists,
        }
        text = yaml.safe_dump(document, sort_keys=False).encode()
        if text != self._written:
            write_atomically(self.folder / KUBECONFIG, text, 0o600)
            self._written = text

    # The front page.

    async def handle(self, request: Request) -> Response:
        path = request.path
        if request.method not in ("GET", "HEAD"):
            return failure(405, "the front page is read with GET", [(b"allow", b"GET, HEAD")])
        if path in ("/livez", "/readyz", "/healthz"):
            return Response(200, b"ok", b"text/plain", list(HEADERS))
        if path in ("/", PATH.rstrip("/")):
            return lead_to(PATH)
        if path == STATES:
            states = [one.document() for one in self.recordings.values()]
            return respond(200, orjson.dumps({"forEveryone": self._for_everyone, "items": states}))
        if path.startswith(f"{STATES}/"):
            return await self._forward(request)
        found = (
            respond_file(_FILES, path.removeprefix(PATH), request.headers) if path.startswith(PATH) else None
        )
        return found or failure(404, f"there is nothing at {escaped(path)}")

    async def _forward(self, request: Request) -> Response:
        name, _, what = request.path.removeprefix(f"{STATES}/").partition("/")
        one = self.recordings.get(name)
        if one is None or what not in _READS:
            return failure(404, f"there is no cluster {escaped(name)} with {escaped(what)}")
        token = request.headers.get(b"authorization", b"")
        if request.query:
            return failure(400, "this path has no parameters; tokens belong into the header Authorization")
        headers = {"authorization": token.decode("latin-1")} if token else {}
        try:
            one.limit.acquire_nowait()
        except trio.WouldBlock:
            return failure(503, f"{name}: others wait for it already", [(b"retry-after", b"5")])
        try:
            status, body = await one.get(*_READS[what], headers)
        except (httpx.HTTPError, OSError, trio.TooSlowError):
            return failure(504, f"{name}: its recorder does not respond")
        finally:
            one.limit.release()
        return respond(status, body)


def front_url(addresses: Addresses, bind: str) -> str:
    if addresses.secure is not None:
        return server_url(bind, addresses.secure[1]) + PATH
    assert addresses.insecure is not None, "it listens on a port"
    return f"http://{host_and_port(*addresses.insecure)}{PATH}"
