"""The API server of `rewound envtest`: takes the flags of kube-apiserver, and serves from the folder of its etcd.

`programs` starts it through the zygote or, without one, as a process of its own. The line, a pair of sockets, connects
it to the program that envtest started: a byte from there asks the server to stop, closing it ends the server at once,
and the last byte that the server sends is its exit code.

The first server in a folder starts with a copy of the template that `rewound envtest` made, a data folder with the
initial objects and certificates, unless its flags would create different ones.
"""

from __future__ import annotations

import gc
import http.client
import logging
import os
import shlex
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import trio

from rewound.actors.versions.version import FIRST, PATCH_RELEASES
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.journal.files.private import private_folder
from rewound.release import served_version
from rewound.server.flags.parser import parse_flags
from rewound.server.process import run_configured, serve_until
from rewound.testing.controlled import WITH_CONTROLS
from rewound.testing.envtest.flags import FlagError, TranslatedFlags, parse, translate
from rewound.testing.envtest.programs import DESCRIPTION, LENGTH, TEMPLATE, decoded
from rewound.testing.zygote import watch_line

logger = logging.getLogger(__name__)

ALWAYS: Final = ("--dialect=kubernetes",)
# v1.25's API server runs no controllers; the flag chooses some.
_NO_CONTROLLERS: Final = "--controllers="
# Flags that change the initial objects, and their values in the template, which are those of envtest.
_SHAPING: Final = {
    "service-cluster-ip-range": "10.0.0.0/24",
    "service-node-port-range": None,
    "runtime-config": None,
    "feature-gates": None,
    "profile": None,
    "rule": None,
}
_ETCD_SECONDS: Final = 10.0
VERSION: Final = "kubernetes.version"  # the file of an assets folder that says it
_CERTIFICATE, _KEY = "apiserver.crt", "apiserver.key"


class CannotStart(Exception):
    """The server cannot start, for a reason besides its flags; the text says what to do."""


class EtcdFolder(NamedTuple):
    """Where the state of an etcd is."""

    folder: Path
    flags: tuple[str, ...] = ()  # the flags of etcd, as flags of `rewound serve`


def main(arguments: list[str]) -> int:
    """Run as a process of its own. The argument is the line's file descriptor, over which the request arrives."""
    line = socket.socket(fileno=int(arguments[0]))
    size = int.from_bytes(_exactly(line, LENGTH), "big")
    (assets, _), given, _ = decoded(_exactly(line, size))
    gc.disable()
    return run_server(given, assets, line)


def _exactly(line: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        if not (more := line.recv(size - len(received))):
            os._exit(1)  # the program that wanted a server has ended
        received += more
    return received


def run_server(arguments: Sequence[str], assets: str, line: socket.socket) -> int:
    """Serve until the line asks to stop or closes; sends and returns the exit code."""
    lifeline = _Lifeline(line)
    code = 1
    try:
        code = _run(arguments, Path(assets), lifeline)
    except (FlagError, CannotStart, SettingsError) as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
    finally:
        with suppress(OSError):
            line.send(bytes([code]))
    return code


def _run(arguments: Sequence[str], assets: Path, lifeline: _Lifeline) -> int:
    version = version_of(assets)
    if any(flag.name == "version" and value == "true" for flag, value in parse(arguments, version)):
        print(f"Kubernetes {served_version(PATCH_RELEASES[version])}", flush=True)
        return 0
    given = translate(arguments, version)
    place = _place(given.etcd_servers)
    folder = place.folder / "rewound" / (quote(given.prefix, safe="") or "-")
    _copy_template(assets / TEMPLATE, folder, given.serve)
    settings, warnings = parse_flags(
        [f"--kubernetes-version={version}", *place.flags, *serve_flags(given, folder)]
    )

    def run() -> int:
        for warning in warnings:
            logger.warning("%s", warning)
        if given.unused:
            logger.info("these flags have no effect here: %s", ", ".join(given.unused))
        trio.run(serve_until, settings, partial(_ready, settings, given), WITH_CONTROLS, None, lifeline.wait)
        return 0

    return run_configured(settings, run)


def version_of(assets: Path) -> str:
    """The version of Kubernetes that the programs of a folder are."""
    try:
        return (assets / VERSION).read_text().strip()
    except FileNotFoundError:
        return FIRST  # an earlier release made the folder


def serve_flags(given: TranslatedFlags, folder: Path) -> list[str]:
    """The flags of `rewound serve`."""
    flags = [*ALWAYS, _NO_CONTROLLERS, *given.serve, f"--data-dir={folder}"]
    if any(one.startswith("--controllers=") for one in given.serve):
        flags.remove(_NO_CONTROLLERS)
    if not any(one.startswith("--tls-cert-file=") for one in given.serve) and given.certificates:
        certificate, key = (Path(given.certificates, name) for name in (_CERTIFICATE, _KEY))
        if certificate.exists() and key.exists():
            flags += [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
    return flags


def _ready(settings: Settings, given: TranslatedFlags, addresses: Addresses) -> None:
    gc.freeze()
    gc.enable()
    if given.certificates and settings.tls_cert_file is None:
        _publish_certificate(settings.pki, Path(given.certificates))
    assert addresses.secure is not None
    logger.info("ready on %s:%d", *addresses.secure)
    if settings.serves_page:
        logger.info(
            "to look at it while it runs: rewound open --kubeconfig %s", shlex.quote(str(settings.kubeconfig))
        )


def _publish_certificate(pki: Path, folder: Path) -> None:
    """Write the generated certificate and its CA to --cert-dir, as v1.25 does."""
    private_folder(folder)
    chain = (pki / "server.crt").read_bytes()
    authority = (pki / "ca.crt").read_bytes()
    (folder / _CERTIFICATE).write_bytes(chain if authority in chain else chain + authority)
    key = os.open(folder / _KEY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(key, "wb") as file:
        file.write((pki / "server.key").read_bytes())


def _copy_template(template: Path, folder: Path, flags: Sequence[str]) -> None:
    """Copy the template, which an ordinary server wrote, into the folder of a new etcd."""
    if folder.exists() or not template.is_dir() or not same_initial_objects(flags):
        return
    draft = folder.with_name(f"{folder.name}.{os.getpid()}")
    private_folder(folder.parent)
    shutil.copytree(template, draft)
    try:
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft)  # another API server was quicker


def same_initial_objects(flags: Sequence[str]) -> bool:
    """Whether a server with these flags creates the objects of the template."""
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition("=")
        if _SHAPING.get(name, value) != value:
            return False
    given = {flag.partition("=")[0].removeprefix("--") for flag in flags}
    return all(name in given for name, usual in _SHAPING.items() if usual is not None)


def template_flags(version: str = FIRST) -> list[str]:
    """The flags with which the template of a version is made."""
    usual = [f"--{name}={value}" for name, value in _SHAPING.items() if value is not None]
    return [f"--kubernetes-version={version}", _NO_CONTROLLERS, *usual]


def _place(servers: Sequence[str]) -> EtcdFolder:
    """The folder that belongs to an etcd. Raises CannotStart if it does not respond, or is another program."""
    until = time.monotonic() + _ETCD_SECONDS
    problem = ""
    while True:
        for server in servers:
            try:
                found = _described(server)
            except (OSError, http.client.HTTPException) as error:
                problem = f"--etcd-servers: {server}: {error or type(error).__name__}; start etcd first"
                continue
            if found is None:
                raise CannotStart(
                    f"--etcd-servers: {server} is not the etcd of rewound envtest, which is in the same folder as "
                    "this program; start that one, or `rewound serve --journal etcd://...` for a real etcd"
                )
            return found
        if time.monotonic() > until:
            raise CannotStart(problem)
        time.sleep(0.05)


def _described(server: str) -> EtcdFolder | None:
    """Ask our etcd for its folder; None if it is another program."""
    url = urlsplit(server)
    if url.scheme != "http" or not url.hostname:
        raise CannotStart(
            f"--etcd-servers: {server} is not http://HOST:PORT, as the etcd of rewound envtest has it"
        )
    connection = http.client.HTTPConnection(url.hostname, url.port or 2379, timeout=_ETCD_SECONDS)
    try:
        connection.request("GET", DESCRIPTION)
        response = connection.getresponse()
        unsafe, size, folder = [*response.read().split(b" ", 2), b"", b""][:3]
    finally:
        connection.close()
    if response.status != 200 or unsafe not in (b"0", b"1") or not size.isdigit():
        return None
    flags = ["--unsafe-no-fsync"] if unsafe == b"1" else []
    if int(size):
        flags.append(f"--max-object-size={int(size)}")
    return EtcdFolder(Path(os.fsdecode(folder)), tuple(flags))


class _Lifeline:
    """Stops the server when the line asks for it, and ends the process when the line is closed."""

    def __init__(self, line: socket.socket) -> None:
        self._asked = threading.Event()
        self._stop: Callable[[], None] | None = None
        watch_line(line, self._ask, lambda: os._exit(1))

    async def wait(self, stop: trio.Event) -> None:
        """Set `stop` when the line asks for it; it may have asked before."""
        token = trio.lowlevel.current_trio_token()
        self._stop = lambda: token.run_sync_soon(stop.set)
        if self._asked.is_set():
            stop.set()
        await trio.sleep_forever()

    def _ask(self) -> None:
        self._asked.set()
        if self._stop is not None:
            with suppress(trio.RunFinishedError):
                self._stop()
