"""The programs `etcd` and `kube-apiserver` that envtest starts.

    python -I -S -c '...; import programs; sys.exit(programs.main(sys.argv[1:]))' etcd|kube-apiserver ASSETS FLAG...

envtest polls every 100 ms, so a program that is ready a moment too late costs a test 100 ms. Hence this module runs
without site-packages and without our packages, and imports little of the standard library, neither typing nor json. It
is ready after 20 ms.

`etcd` responds to /health and stores nothing: it owns the folder in which the API server stores its state, and returns
its path to the API server that asks for it. It also starts the zygote, a process that imports the server while envtest
creates its certificates, stays as long as the process that runs the tests, and forks a server for each environment.

`kube-apiserver` asks the zygote for a server and stays as its deputy: it forwards signals, and ends with the server.
Without a zygote it starts the server itself, which takes as long as the imports do.

No process outlives the tests, however they end. Rejected: PR_SET_PDEATHSIG, which fires when the thread that started
the child ends; the threads of a Go program come and go.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import stat
import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

LENGTH: Final = 4  # bytes before a request to the zygote
# Sent with it: the server's end of the line, once for the zygote and once for the server; stdin, stdout and stderr.
DESCRIPTORS: Final = 5
DESCRIPTION: Final = "/rewound"  # path at which the API server asks for the folder
TEMPLATE: Final = "template"  # data folder to copy, in the folder of the programs
# The prefix of the folders that envtest creates, and removes unless it is killed.
TEMPORARY: Final = "k8s_test_framework_"
_HEADER_BYTES: Final = 1 << 16
_CLIENT_SECONDS: Final = 5.0  # for a client to send its request
_REMOVALS: Final = 40  # attempts
_LONGEST_SOCKET: Final = 100  # bytes that every system allows in the path of a socket


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The boolean flags of etcd 3.5, and its other flags. Most have no effect on the stand-in.
_ETCD_SWITCHES: Final = _words(
    """
    auto-tls client-cert-auth enable-grpc-gateway enable-pprof enable-v2 experimental-compact-hash-check-enabled
    experimental-corrupt-check-enabled experimental-enable-distributed-tracing experimental-enable-lease-checkpoint
    experimental-enable-lease-checkpoint-persist experimental-initial-corrupt-check experimental-memory-mlock
    experimental-txn-mode-write-with-shared-buffer force-new-cluster peer-auto-tls peer-client-cert-auth
    pre-vote strict-reconfig-check unsafe-no-fsync
    """
)
_ETCD_VALUES: Final = _words(
    """
    advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention
    backend-batch-interval backend-batch-limit backend-bbolt-freelist-type bcrypt-cost cert-file cipher-suites
    client-crl-file cors data-dir discovery discovery-fallback discovery-proxy discovery-srv discovery-srv-name
    election-timeout experimental-bootstrap-defrag-threshold-megabytes experimental-compact-hash-check-time
    experimental-compaction-batch-limit experimental-compaction-sleep-interval experimental-corrupt-check-time
    experimental-distributed-tracing-address experimental-distributed-tracing-instance-id
    experimental-distributed-tracing-sampling-rate experimental-distributed-tracing-service-name
    experimental-downgrade-check-time experimental-max-learners experimental-peer-skip-client-san-verification
    experimental-snapshot-catchup-entries experimental-stop-grpc-service-on-defrag
    experimental-warning-apply-duration experimental-warning-unary-request-duration
    experimental-watch-progress-notify-interval grpc-keepalive-interval grpc-keepalive-min-time
    grpc-keepalive-timeout heartbeat-interval host-whitelist initial-advertise-peer-urls initial-cluster
    initial-cluster-state initial-cluster-token initial-election-tick-advance key-file listen-client-http-urls
    listen-client-urls listen-metrics-urls listen-peer-urls log-format log-level log-outputs log-rotation-config-json
    logger max-concurrent-streams max-request-bytes max-snapshots max-txn-ops max-wals metrics name peer-cert-allowed-cn
    peer-cert-allowed-hostname peer-cert-file peer-client-cert-file peer-client-key-file peer-crl-file peer-key-file
    peer-trusted-ca-file proxy proxy-dial-timeout proxy-failure-wait proxy-read-timeout proxy-refresh-interval
    proxy-write-timeout quota-backend-bytes self-signed-cert-validity snapshot-count socket-reuse-address
    socket-reuse-port tls-max-version tls-min-version trusted-ca-file v2-deprecation wal-dir
    """
)


# Flags that would change what a test proves if they were ignored, and what to do instead.
_ETCD_REFUSED: Final = {
    "auto-compaction-retention": "give --etcd-compaction-interval to the API server instead",
    "quota-backend-bytes": "nothing but the disk limits the state: leave it out",
}


class UsageError(Exception):
    """A flag that the stand-in refuses."""


def etcd_help() -> str:
    """What `etcd --help` prints: envtest looks for a flag by a line that begins with it."""
    lines = [
        "The etcd of `rewound envtest`: it serves /health, and owns the folder of an API server's state.",
        "",
    ]
    lines += [f"  --{name} 'false'" for name in sorted(_ETCD_SWITCHES)]
    lines += [f"  --{name} ''" for name in sorted(_ETCD_VALUES)]
    return "\n".join(lines) + "\n"


class EtcdFlags:
    """The parsed flags of etcd. Raises UsageError."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.folder = "default.etcd"
        self.listen = [("localhost", 2379)]
        self.unsafe_no_fsync = False
        self.max_request_bytes = 0  # the API server's default
        self.unused: list[str] = []
        rest = list(arguments)
        while rest:
            name, value = _next_flag(rest)
            if name == "data-dir":
                self.folder = value
            elif name == "listen-client-urls":
                self.listen = [_address(url) for url in value.split(",")]
            elif name == "unsafe-no-fsync":
                self.unsafe_no_fsync = value in ("true", "1", "t", "T", "TRUE", "True")
            elif name == "max-request-bytes" and value.isdecimal():
                self.max_request_bytes = int(value)
            elif name in _ETCD_REFUSED and value not in ("", "0"):
                raise UsageError(f"--{name}={value} is refused by rewound envtest: {_ETCD_REFUSED[name]}")
            elif name not in ("advertise-client-urls", "listen-peer-urls"):
                self.unused.append(f"--{name}")


def _next_flag(rest: list[str]) -> tuple[str, str]:
    """Take a flag and its value off the front, as Go's package flag does."""
    given = rest.pop(0)
    name, equals, value = given.lstrip("-").partition("=")
    if not given.startswith("-"):
        raise UsageError(f"'{given}' is not a valid flag")
    if name in _ETCD_SWITCHES:
        return name, value if equals else "true"
    if name not in _ETCD_VALUES:
        raise UsageError(f"flag provided but not defined: -{name}")
    if not equals and not rest:
        raise UsageError(f"flag needs an argument: -{name}")
    return name, value if equals else rest.pop(0)


def _address(url: str) -> tuple[str, int]:
    scheme, _, place = url.strip().partition("://")
    host, _, port = place.rstrip("/").rpartition(":")
    if scheme != "http" or not host or not port.isdigit():
        raise UsageError(
            f"--listen-client-urls: {url} is not http://HOST:PORT; the etcd of rewound envtest has no TLS: "
            "leave its certificates out"
        )
    return host.strip("[]"), int(port)


def run_etcd(assets: str, arguments: list[str]) -> int:
    try:
        etcd = EtcdFlags(arguments)
    except UsageError as error:
        return _fail("etcd", str(error), 2)
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    if etcd.unused:
        _say("etcd", f"these flags have no effect here: {', '.join(etcd.unused)}")
    try:
        os.makedirs(etcd.folder, mode=0o700, exist_ok=True)
        listeners = [_listen(address) for address in etcd.listen]
    except OSError as error:
        return _fail("etcd", f"{error}; give another --listen-client-urls or --data-dir", 1)
    parent = os.getppid()
    _start_zygote(parent)
    folder = os.path.abspath(etcd.folder)
    numbers = f"{int(etcd.unsafe_no_fsync)} {etcd.max_request_bytes} "
    description = numbers.encode() + os.fsencode(folder)
    _until_ended(parent, {one: partial(_respond, one, description) for one in listeners})
    _remove_temporary(folder)
    return 1


def _listen(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=128)


def _respond(listener: socket.socket, description: bytes) -> None:
    """Respond to one request by its path."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(_CLIENT_SECONDS)
        try:
            received = b""
            while b"\r\n\r\n" not in received and len(received) < _HEADER_BYTES:
                if not (more := connection.recv(4096)):
                    return
                received += more
            path = [*received.split(b" ", 2), b""][1].decode("latin-1").partition("?")[0]
            connection.sendall(_response(path, description))
        except OSError:
            pass  # this client is gone


def _response(path: str, description: bytes) -> bytes:
    bodies = {
        "/health": b'{"health":"true","reason":""}',
        "/readyz": b"ok",
        "/livez": b"ok",
        "/version": b'{"etcdserver":"3.5.4","etcdcluster":"3.5.0"}',
        DESCRIPTION: description,
    }
    body = bodies.get(path)
    status = b"200 OK" if body is not None else b"404 Not Found"
    body = body if body is not None else b"the etcd of rewound envtest serves /health only\n"
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)


def run_api_server(assets: str, arguments: list[str]) -> int:
    """Run until the server ends; returns its exit code as shells count: 128 and the signal if it was killed."""
    ours, theirs = socket.socketpair()
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    request = encoded([assets, os.getcwd()], arguments, environment)
    stops = (signal.SIGTERM, signal.SIGINT)
    for number in stops:
        signal.signal(number, lambda *_: _stop(ours))
    own = 0  # a server that is our child, not the zygote's
    with theirs:
        if not _ask_zygote(request, theirs):
            own = _start("api_server", [theirs.fileno()], attached=True)
            ours.sendall(request)
    received = bytearray()

    def receive() -> None:
        more = ours.recv(1)
        received.extend(more)
        if more:
            return
        # The server has ended and sent its exit code, or was killed.
        code = received[-1] if received else _exit_code(os.waitpid(own, 0)[1]) if own else 1
        if code > _KILLED:
            _say_killed(code - _KILLED)
        sys.exit(code)

    _until_ended(os.getppid(), {ours: receive})
    for folder in _named_folders(arguments):
        _remove_temporary(folder)
    return 1


def _say_killed(number: int) -> None:
    sys.path.append(_root())
    from rewound.testing.killed import killed_by

    _say("kube-apiserver", f"the server was {killed_by(number)}")


def _stop(line: socket.socket) -> None:
    try:
        line.send(b"s")
    except OSError:
        pass  # it has ended


def _named_folders(arguments: list[str]) -> list[str]:
    return [one.partition("=")[2] for one in arguments if one.startswith("--cert-dir=")]


def zygote_socket(parent: int) -> str:
    """The socket of the zygote for the tests in this process; empty if there is no safe place for it.

    Its folder must be this user's alone: whoever can connect can start a server as this user.
    """
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"rewound-envtest-{os.getuid()}")
    path = os.path.join(folder, f"{parent}.socket")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return ""
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return path if own and len(os.fsencode(path)) <= _LONGEST_SOCKET else ""


def _start_zygote(parent: int) -> None:
    """Start the zygote unless one runs.

    It inherits the socket, so that programs can connect to it as soon as etcd is healthy, and the lock, which is free
    again when the zygote ends, however that happens.
    """
    path = zygote_socket(parent)
    if not path:
        return
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return  # servers start without one, a little slower
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.lexists(path):
            os.unlink(path)  # left by a zygote that was killed
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(128)
            _start("zygote", [listener.fileno(), lock], path, str(parent))
    except OSError:
        pass  # one runs, or none can be started
    finally:
        os.close(lock)


def _ask_zygote(request: bytes, theirs: socket.socket) -> bool:
    path = zygote_socket(os.getppid())
    if not path:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(path)
            socket.send_fds(control, [request[:LENGTH]], [theirs.fileno()] * 2 + [0, 1, 2])
            control.sendall(request[LENGTH:])
            return control.recv(1) == b"f"  # forked
    except OSError:
        return False


def encoded(*lists: Sequence[str]) -> bytes:
    """Encode lists of strings without zero bytes: arguments, paths and the environment have none."""
    body = b"\0\0".join(b"\0".join(b"=" + os.fsencode(one) for one in strings) for strings in lists)
    return len(body).to_bytes(LENGTH, "big") + body


def decoded(body: bytes) -> list[list[str]]:
    """Decode the lists from the body after the length."""
    return [[os.fsdecode(one[1:]) for one in strings.split(b"\0") if one] for strings in body.split(b"\0\0")]


_KILLED: Final = 128  # and the number of a signal: how shells write that a signal ended a process


def _exit_code(status: int) -> int:
    """The exit code that a shell would give for what `waitpid` returned."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _KILLED - code


def _start(module: str, inherited: list[int], *arguments: str, attached: bool = False) -> int:
    """Start a module of this folder as a process. Its first arguments are the descriptors that it inherits.

    Only an `attached` one keeps our standard input, output and error.
    """
    name = f"rewound.testing.envtest.{module}"
    code = f"import sys; sys.path.append({_root()!r}); from {name} import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-P", "-c", code, *map(str, inherited), *arguments]
    if child := os.fork():
        return child
    try:
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        if not attached:
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
        os.setsid()  # Ctrl-C in a terminal is for the tests
        os.execv(sys.executable, command)
    finally:
        os._exit(127)


def _root() -> str:
    """The folder of our packages."""
    root = os.path.abspath(__file__)
    for _ in range(4):
        root = os.path.dirname(root)
    return root


def _until_ended(process: int, handlers: dict[socket.socket, Callable[[], None]]) -> None:
    """Call the handler of each socket that is readable, until our parent process has ended."""
    ended = _end_of(process)
    watched: list[Any] = [*handlers] if ended is None else [*handlers, ended]
    while True:
        readable, _, _ = select.select(watched, [], [], 1.0)
        if ended in readable or os.getppid() != process:
            return
        for one in readable:
            handlers[one]()


def _end_of(process: int) -> int | None:
    """A file descriptor that becomes readable when a process ends.

    None where the system has none, and if the process has ended: callers must poll as well.
    """
    try:
        return os.pidfd_open(process) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


def _remove_temporary(folder: str) -> None:
    """Remove a folder that a killed envtest has left. A server that is about to end may still write to it."""
    if not os.path.basename(os.path.normpath(folder)).startswith(TEMPORARY):
        return
    import shutil
    import time

    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(0.05)


def _exit(number: int, frame: object) -> None:
    sys.exit(0)


def _fail(program: str, text: str, code: int) -> int:
    _say(program, text)
    return code


def _say(program: str, text: str) -> None:
    print(f"rewound envtest: {program}: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    program, assets, *flags = arguments
    return {"etcd": run_etcd, "kube-apiserver": run_api_server}[program](assets, flags)
