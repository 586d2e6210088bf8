"""A cluster of `rewound up`: its folder, whether its server runs, and how that is started and stopped.

    ~/.local/state/rewound/NAME/cluster.json    how the server is started, its port, its context
                                data/           the data folder
                                server.log      what the server prints; before that, server.log.1
                                server.lock     locked by the server while it runs; has its process id

Whether a server runs is decided by the lock, which the kernel releases when the process ends. The process id is never
trusted alone: after the machine was switched off, another process may have it. A signal is sent only to a process that
has the lock file open. A second lock, outside of the folder, lets only one command at a time start or stop a cluster.

Whatever is in the folders may be from other programs: a file is opened only if it is a regular one, and a cluster whose
files cannot be read is `broken`, without any effect on the others.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from rewound.cli.local.server import LARGEST_LOG, rotate
from rewound.client.errors import Failure, UsageError
from rewound.journal.files.private import PRIVATE, open_regular, private_folder, read_regular

DEFAULT_NAME: Final = "default"
HOST: Final = "127.0.0.1"
_NAME = re.compile("[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_START_SECONDS: Final = 180.0  # until the server is ready
_STOP_SECONDS: Final = 60.0  # until it has stopped; then it is killed, which loses no write
_POLL_SECONDS: Final = 0.05
_PID_DIGITS: Final = 20
_LOG_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_LOCK_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
)  # never waits, even if it is a FIFO
_LINES: Final = 15  # of the log of a start that failed
_CANNOT_STORE: Final = (
    "[-]etcd failed",
    "[-]journal failed",
)  # in the response of /readyz, as on a full disk


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of all clusters: in $XDG_STATE_HOME, or where this system keeps such files."""
    given = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        base = Path(given)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path.home() / ".local" / "state"
    return base / "rewound"


@dataclass(slots=True)
class Stored:
    """What `cluster.json` has."""

    port: int = 0
    nodes: int | None = None  # None: what --config says, or none with a recording
    node_devices: str | None = None  # a file
    kubernetes_version: str | None = None
    config: str | None = None
    recorded: bool = False  # it began with a recording
    flags: list[str] = field(default_factory=list)  # of `rewound serve`
    kubeconfig: str = ""  # the file that has its context
    context_before: str = ""  # the current context of that file before

    def of_serve(self, data: Path) -> list[str]:
        """The flags of `rewound serve`; later ones take precedence."""
        given = [f"--data-dir={data}", f"--secure-port={self.port}"]
        if self.recorded:
            # The webhooks of the recorded cluster are out of reach, and its events are older than a day.
            given += [
                "--journal-retention=0",
                "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
            ]
        else:
            given.append("--dialect=kubernetes")
        if self.config is not None:
            given.append(f"--config={self.config}")
        if self.kubernetes_version is not None:
            given.append(f"--kubernetes-version={self.kubernetes_version}")
        if self.nodes is not None:
            given.append(f"--nodes={self.nodes}")
            given += ["--default-storage-class=standard"] if self.nodes else []
        if self.node_devices is not None:
            given.append(f"--node-devices={self.node_devices}")
        return given + self.flags


class LocalCluster:
    def __init__(self, name: str, root: Path) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a cluster; give at most 40 of a-z, 0-9 and -, no - at its ends"
            )
        self.name, self.root = name, root
        self.folder = root / name
        self.data, self.log = self.folder / "data", self.folder / "server.log"
        self._settings, self._lock = self.folder / "cluster.json", self.folder / "server.lock"

    @classmethod
    def all(cls, root: Path) -> list[LocalCluster]:
        with suppress(FileNotFoundError, NotADirectoryError):
            names = sorted(one.name for one in root.iterdir() if _NAME.fullmatch(one.name))
            return [one for one in (cls(name, root) for name in names) if one.exists]
        return []

    @property
    def exists(self) -> bool:
        """Whether there is something where `cluster.json` belongs, or this user cannot see whether there is."""
        return os.path.lexists(self._settings) or (
            self.folder.is_dir() and not os.access(self.folder, os.R_OK | os.X_OK)
        )

    @property
    def context(self) -> str:
        return f"rewound-{self.name}"

    @property
    def kubeconfig(self) -> Path:
        """The file of the administrator, which the server writes."""
        return self.data / "admin.kubeconfig"

    def check_exists(self) -> None:
        if not self.exists:
            raise Failure(f"there is no cluster {self.name}; `rewound list` shows those that there are")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other commands from starting or stopping this cluster meanwhile."""
        locks = self.root / ".locks"
        _make_own(self.root)
        _make_own(locks)
        with open(os.open(locks / self.name, _LOCK_FLAGS, 0o600), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"another command starts or stops {self.name}: waiting for it", file=sys.stderr)
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def stored(self) -> Stored:
        try:
            return _parse(read_regular(self._settings))
        except FileNotFoundError:
            return Stored()
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Failure(
                f"{self._settings}: {why}; correct it, or delete the cluster: rewound down {self.name} --delete"
            ) from error

    def store(self, stored: Stored) -> None:
        from rewound.actors.certificates.pki import write_atomically

        _make_own(self.folder)
        write_atomically(self._settings, json.dumps(asdict(stored), indent=2).encode() + b"\n", 0o600)

    @property
    def is_running(self) -> bool:
        """Whether a server holds the lock. It may be starting or stopping."""
        try:
            with open(open_regular(self._lock), "rb") as file:
                return not _free(file)
        except FileNotFoundError:
            return False

    @property
    def pid(self) -> int | None:
        """The process of the server; None if there is none, or if it has only begun."""
        try:
            with open(open_regular(self._lock), "rb") as file:
                written = b"" if _free(file) else file.read(_PID_DIGITS).strip()
        except FileNotFoundError:
            return None
        return int(written) if written.isdigit() and int(written) else None

    def choose_port(self, kept: int) -> socket.socket:
        """Reserve the port of the last start, or another one if a program uses it.

        The socket is bound and does not listen: the server can listen on its port, and other programs cannot.
        """
        others = set()
        for cluster in self.all(self.root):
            with suppress(Failure):  # it is broken, and cannot start
                others |= {cluster.stored().port} if cluster.name != self.name else set()
        with suppress(OSError):
            return _bound(kept)
        passed = []  # held, so that the kernel chooses others
        try:
            while (sock := _bound(0)).getsockname()[1] in others:
                passed.append(sock)
            return sock
        finally:
            for one in passed:
                one.close()

    def start(self, stored: Stored) -> str:
        """Start the server and wait until it is ready; returns the version of Kubernetes that it is."""
        rotate(self.log, LARGEST_LOG)
        with (
            open(os.open(self._lock, _LOCK_FLAGS, 0o600), "r+b") as lock,
            open(os.open(self.log, _LOG_FLAGS, 0o600), "ab") as log,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)  # `is_running` may just look; no server has it
            lock.truncate(0)
            begins = log.tell()
            command = [
                sys.executable,
                "-P",
                "-m",
                "rewound.cli.local.server",
                str(lock.fileno()),
                str(self.log),
            ]
            process = subprocess.Popen(
                [*command, *stored.of_serve(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock.fileno()],
                start_new_session=True,
                cwd=self.folder,
                umask=0o077,
                # The server imports from the same places as this process.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        try:
            return self._await_ready(process, stored.port, begins)
        except BaseException:
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_SECONDS)
                process.kill()
                process.wait()
            raise

    def _await_ready(self, process: subprocess.Popen[bytes], port: int, begins: int) -> str:
        deadline, pause = time.monotonic() + _START_SECONDS, _POLL_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                from rewound.testing.killed import killed_by

                code = process.returncode
                how = f"ended with exit code {code}" if code >= 0 else f"was {killed_by(-code)}"
                raise Failure(f"{self.name} did not start: its server {how}{self._last_lines(begins)}")
            version, failed = self._readiness(port)
            if version:
                return version
            if any(one in failed for one in _CANNOT_STORE):
                raise Failure(f"{self.name} did not start: its server cannot store{self._last_lines(begins)}")
            time.sleep(pause)
            pause = min(pause * 1.2, 10 * _POLL_SECONDS)
        raise Failure(f"{self.name} is not ready after {_START_SECONDS:.0f} s{self._last_lines(begins)}")

    def _last_lines(self, begins: int) -> str:
        """The end of the log since `begins`, below a message."""
        text = self.log.read_bytes()[begins:].decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()][-_LINES:]
        return "".join(f"\n  {line}" for line in lines) or "; it printed nothing"

    def ready(self, port: int) -> str | None:
        """The version of the server at this port; None if it is not ready."""
        return self._readiness(port)[0] or None

    def _readiness(self, port: int) -> tuple[str, str]:
        """The version of a server that is ready; or else what /readyz says, if anything."""
        try:
            status, body = self._get(port, "/readyz")
            if status != 200:
                return "", body.decode(errors="replace")
            version: str = json.loads(self._get(port, "/version")[1])["gitVersion"]
            return version.partition("+")[0].removeprefix("v"), ""
        except (OSError, ValueError, KeyError):
            return "", ""

    def _get(self, port: int, path: str) -> tuple[int, bytes]:
        """Status and body of a response. A server that is not that of this folder is not trusted."""
        from http.client import HTTPException, HTTPSConnection

        from rewound.actors.access.remote.kubeconfig_file import read_kubeconfig
        from rewound.actors.certificates.trust import verifying

        pki, authority = self.data / "pki", read_kubeconfig(self.kubeconfig).selected().cluster.authority
        assert isinstance(authority, bytes), "the server writes it into the file"
        context = verifying(authority)
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        connection = HTTPSConnection(HOST, port, timeout=10, context=context)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def stop(self) -> bool:
        """Stop the server and wait until it has stopped; returns whether one ran."""
        if not self.is_running:
            return False
        if self._signal_and_wait(signal.SIGTERM, _STOP_SECONDS):
            return True
        print(f"{self.name} has not stopped within {_STOP_SECONDS:.0f} s: killing it", file=sys.stderr)
        if not self._signal_and_wait(signal.SIGKILL, _STOP_SECONDS):
            raise Failure(
                f"{self.name}: process {self.pid} does not end, even when killed; is its disk gone?"
            )
        return True

    def _signal_and_wait(self, number: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        sent = False
        while self.is_running:
            sent = sent or self._signal(number)
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _signal(self, number: int) -> bool:
        """Send a signal to the server; returns False if it has not written its process id yet."""
        pid = self.pid
        if pid is None:
            return False
        if sys.platform != "linux":
            os.kill(pid, number)
            return True
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                if not self._is_opened_by(pid):
                    raise Failure(
                        f"{self._lock} names process {pid}, which is not the server of {self.name}, and another "
                        "process holds its lock; end that one: `fuser` with the path of the file shows it"
                    )
                # If the server ended in between, the handle may be of another process with its number.
                if self.pid == pid:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
        return True

    def _is_opened_by(self, pid: int) -> bool:
        """Whether a process of this user has the lock file open, as a server has."""
        lock = self._lock.stat()
        try:
            for one in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):
                    if os.path.samestat(one.stat(), lock):
                        return True
        except (FileNotFoundError, PermissionError):
            pass
        return False

    def delete(self) -> None:
        shutil.rmtree(self.folder)

    def size(self) -> int:
        """The bytes that the folder takes on the disk."""
        blocks = 0
        for folder, _, files in os.walk(self.folder):  # leaves out folders that cannot be read
            for name in files:
                with suppress(OSError):  # a running server deletes files
                    blocks += os.lstat(os.path.join(folder, name)).st_blocks
        return blocks * 512

    def read_log(self, lines: int | None) -> tuple[str, int]:
        """The last lines of the log, and where they end."""
        with suppress(FileNotFoundError):
            raw = self.log.read_bytes()
            found = raw.decode(errors="replace").splitlines(keepends=True)
            return "".join(found if lines is None else found[max(0, len(found) - lines) :]), len(raw)
        return "", 0

    def follow_log(self, begins: int, write: Callable[[str], Any]) -> None:
        """Write what is added to the log, until the server has stopped."""
        running = True
        while running:
            running = self.is_running
            if self.log.stat().st_size < begins:
                begins = 0  # another log has begun
            with self.log.open("rb") as file:
                file.seek(begins)
                added = file.read()
            begins += len(added)
            if added:
                write(added.decode(errors="replace"))
            if running:
                time.sleep(_POLL_SECONDS)


def _parse(text: bytes) -> Stored:
    """Raises ValueError."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("is not a JSON object")
    if unknown := document.keys() - {one.name for one in fields(Stored)}:
        raise ValueError(f"has an unknown field {min(unknown)!r}")
    try:
        return msgspec.convert(document, Stored)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _make_own(folder: Path) -> None:
    """Create a folder that only this user can use, or make it one. It leads to keys and to what is executed."""
    private_folder(folder)
    found = folder.lstat()
    if found.st_uid != os.getuid():
        raise Failure(
            f"{folder} belongs to another user; move it away, or set XDG_STATE_HOME to another folder"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(PRIVATE)


def _free(file: IO[bytes]) -> bool:
    """Whether no server has locked the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _bound(port: int) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except OSError:
        sock.close()
        raise
    return sock


def recorded_into(file: Path, data: Path) -> None:
    """Create the journal of a data folder from a recording, a backup or the folder of another server."""
    import tempfile

    from rewound.journal.errors import JournalError
    from rewound.journal.transfer import fork
    from rewound.recording.progress import Progress
    from rewound.recording.replay.source import open_source

    try:
        with (
            tempfile.TemporaryDirectory(prefix="rewound-up-") as temporary,
            Progress("import") as progress,
            open_source(file, Path(temporary), progress) as recording,
            recording.read_all() as view,
        ):
            fork(view, data / "journal", recording.end)
    except JournalError as error:
        raise Failure(f"--recording: {error}") from error
