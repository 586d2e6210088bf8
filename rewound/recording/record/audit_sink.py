"""The audit webhook sink: receives audit events of the recorded API servers over HTTPS.

    POST (an EventList) -> sender authenticated -> body, bounded -> events parsed -> duplicates left out
        -> appended to the spool -> `take` -> 200

An API server (`--audit-webhook-config-file`) sends batches of up to 400 events, uncompressed, several at the same time,
and repeats a batch up to four times after any error: the response that it did not get may have been a 200. So a 200 is
sent only when the events are in the spool, and a repeated event is recognized by its ID, times and object; the ID alone
is chosen by clients. What cannot be taken now gets 429 or 503 with Retry-After, and nothing of it is kept.

OUT/audit-webhook has what the sink needs: `config.yaml` for the API servers, the token, the certificates, the spool.
"""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

import trio

from rewound.actors.certificates.kubeconfig import server_url, write_user
from rewound.actors.certificates.names import certificate_name, reachable_addresses
from rewound.actors.certificates.pki import Certificates, prepare, write_atomically
from rewound.actors.runtime.threads import run_in_thread
from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.connections.limits import KIB, Limits
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.server import Server
from rewound.gateway.memory.budget import MemoryBudget, TooManyRequests
from rewound.gateway.message import Request, Response
from rewound.gateway.pipeline.errors import plain_failure
from rewound.gateway.settings.server_config import host_and_port
from rewound.gateway.wire.json import dump_line
from rewound.journal.files.private import private_folder
from rewound.recording.record.audit_spool import Spool, digest
from rewound.recording.record.requests import Request as AuditRequest
from rewound.recording.record.requests import Unreadable, UnreadableEvents, requests_in

logger = logging.getLogger(__name__)

FOLDER: Final = "audit-webhook"
# A batch of 400 events has a few MB; an API server with --audit-webhook-truncate-enabled sends at most 10.
LARGEST_BATCH: Final = 32 << 20
# The memory of bodies on their way. One user of the budget may hold half of it, and all senders are one: what does not
# fit waits for up to ten seconds, and gets 429 then.
MOST_HELD: Final = 2 * LARGEST_BATCH
MOST_SEEN: Final = 300_000  # events that are recognized when they are repeated, about 100 bytes each
CHECK_SECONDS: Final = 86400.0  # between two looks at the certificates
_LIMITS: Final = Limits(body=LARGEST_BATCH, target=8 * KIB, head=32 * KIB, headers=100, connections=256)
_SENDER: Final = "audit webhook"  # the user of all batches in the memory budget
_RETRY: Final = [(b"retry-after", b"1")]


@dataclass(frozen=True, slots=True)
class SinkOptions:
    port: int = -1  # 0: a free one; negative: there is no sink
    bind: str = "127.0.0.1"
    names: tuple[
        str, ...
    ] = ()  # host names and addresses at which API servers reach the sink, the preferred one first
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None  # issues the certificates of senders
    token_file: Path | None = None


@dataclass(slots=True)
class SinkStatistics:
    batches: int = 0  # that were taken
    events: int = 0  # of these batches: requests that changed something, or were refused
    repeated: int = 0  # events
    unreadable: int = 0  # events, and bodies that are no EventList
    why: str = ""  # the first of them could not be read
    unauthenticated: int = 0  # requests
    refused: int = 0  # requests: too large, not a POST, an unknown encoding
    busy: int = 0  # requests to be repeated: no memory, or no disk
    last: float = 0.0  # when the last batch was taken, in seconds since 1970


class AuditSink:
    def __init__(
        self,
        folder: Path,
        options: SinkOptions,
        take: Callable[[AuditRequest], None],
        flush: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`folder` of the recording; `take` gets each event that counts, once; `flush` is called after refused ones.

        `now()` in seconds since 1970.
        """
        self._folder = folder / FOLDER
        self._options = options
        self._take, self._flush = take, flush
        self._now = now
        self.statistics = SinkStatistics()
        self._seen: dict[bytes, None] = {}
        self._taking = trio.Lock()
        self._decoding = trio.CapacityLimiter(1)  # decoded, a batch is several times as large
        self._memory = MemoryBudget(MOST_HELD)
        self._reported: set[str] = set()  # problems of which the log has a line
        self._tokens: tuple[bytes, ...] = ()
        self.spool = Spool(self._folder / "spool", now)
        self.url = ""

    @property
    def config_file(self) -> Path:
        """The file for --audit-webhook-config-file of the API servers."""
        return self._folder / "config.yaml"

    def load(self, take: Callable[[AuditRequest, int, bool], None]) -> None:
        """Take the events that an earlier run acknowledged, with their uses (`Spool.load`). Raises OSError."""
        for request, uses, marked in self.spool.load():
            self._seen[digest(request)] = None
            if not request.refused:
                take(request, uses, marked)

    # Listening.

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled. Raises CannotListen, CertificateError and OSError."""
        private_folder(self._folder)
        self._tokens = self._read_tokens()
        config = ServerConfig()
        config.listen_on([host_and_port(self._options.bind, self._options.port)], ())
        context, authority = await run_in_thread(self._prepare, config)
        server = Server(self.handle, self._refuse_unread, _LIMITS, memory=self._memory)
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            listeners: list[Listener] = await nursery.start(
                lambda task_status: server.serve(config, tls=context, stop=stop, task_status=task_status)
            )
            address = listeners[0].address
            assert address is not None, "it is no Unix socket"
            self.url = server_url(self._hosts()[0], address[1])
            self._write_config(authority)
            task_status.started()
            while True:
                await trio.sleep(CHECK_SECONDS)
                context, authority = await run_in_thread(self._prepare, config)
                server.replace_tls(context, None)
                self._write_config(authority)

    def _hosts(self) -> tuple[str, ...]:
        return (*self._options.names, *reachable_addresses(self._options.bind))

    def _prepare(self, config: ServerConfig) -> tuple[ssl.SSLContext, Path]:
        """The TLS context, and the CA of the serving certificate. Raises CertificateError."""
        options = self._options
        certificate, key = options.certificate, options.key
        authority = certificate
        if certificate is None or key is None:
            own = self._own_certificates()
            certificate, key, authority = own.certificate("server"), own.key("server"), own.authority
        assert authority is not None
        config.certfile, config.keyfile = str(certificate), str(key)
        config.client_authorities = [] if options.client_authority is None else [options.client_authority]
        context = config.create_ssl_context()
        assert context is not None, "it has a certificate"
        return context, authority

    def _own_certificates(self) -> Certificates:
        names = ("localhost", "127.0.0.1", "::1", socket.gethostname(), *self._hosts())
        usable = dict.fromkeys(name for name in map(certificate_name, names) if name)
        return prepare(self._folder / "pki", tuple(usable), time.time())

    def _read_tokens(self) -> tuple[bytes, ...]:
        """The tokens of senders, one in each line; our own file is made with one. Raises OSError."""
        path = self._options.token_file
        if path is None:
            path = self._folder / "token"
            if not path.exists():
                write_atomically(path, token_urlsafe(32).encode() + b"\n", 0o600)
        return tuple(line.strip() for line in path.read_bytes().splitlines() if line.strip())

    def _write_config(self, authority: Path) -> None:
        credentials = {"token": self._tokens[0].decode()} if self._tokens else {"client-certificate": "FILE"}
        write_user(self.config_file, self.url, authority, "api-server", credentials)

    # Requests.

    async def handle(self, request: Request) -> Response:
        refusal = self._refuse(request)
        if refusal is not None:
            return refusal
        request.user = _SENDER
        try:
            if request.arriving is not None:
                request.body = await request.arriving()
        except TooManyRequests:
            return self._busy(429, "other batches are being read; try again in a second")
        body, request.body = request.body, b""
        try:
            found, unreadable = await run_in_thread(
                _events_in, body, request.headers.get(b"content-encoding", b""), limiter=self._decoding
            )
        except _TooLarge:
            self._count_too_large()
            return _refusal(413, f"the body has more than {LARGEST_BATCH} bytes when it is decompressed")
        except _UnknownEncoding as error:
            self.statistics.refused += 1
            return _refusal(415, str(error))
        except Unreadable as error:
            self._count_unreadable(error, 1)
            return _refusal(400, f"the body is not an EventList of audit.k8s.io/v1: {error}")
        try:
            await self._accept(found)
        except OSError as error:
            self._report_once(f"the spool of the audit webhook cannot be written: {error.strerror}")
            return self._busy(503, "the events cannot be stored now; try again in a second")
        if unreadable is not None:
            self._count_unreadable(unreadable, unreadable.events)
        self.statistics.batches += 1
        self.statistics.last = self._now()
        return Response(200, b"")

    def _refuse(self, request: Request) -> Response | None:
        if not self._is_sender(request):
            self.statistics.unauthenticated += 1
            self._report_once(
                f"a request from {request.peer.address} to the audit webhook has neither its token nor a certificate "
                f"of its client CA: give the API servers {self.config_file}"
            )
            response = _refusal(
                401, "the sender is not known: the token or client certificate is missing or wrong"
            )
            response.headers.append((b"www-authenticate", b"Bearer"))
            return response
        if request.method != "POST":
            self.statistics.refused += 1
            return _refusal(405, "audit events are sent with POST")
        return None

    def _refuse_unread(self, status: int, message: str) -> Response:
        """The response to what is no request, or to one whose head says that it is too large."""
        if status == 413:
            self._count_too_large()
        return _refusal(status, message)

    def _is_sender(self, request: Request) -> bool:
        peer = request.peer
        if peer.certificate is not None and peer.certificate_expires > time.time_ns():
            return True
        scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
        try:
            self._tokens = self._read_tokens()  # they may have been replaced
        except OSError as error:
            self._report_once(f"the tokens of the audit webhook cannot be read: {error.strerror}")
        matches = [hmac.compare_digest(token.strip(), one) for one in self._tokens]
        return scheme.lower() == b"bearer" and any(matches)

    async def _accept(self, found: list[AuditRequest]) -> None:
        """Store what is new, and pass it on. Raises OSError if it cannot be stored; the sender repeats it then."""
        async with self._taking:
            fresh: dict[bytes, AuditRequest] = {}
            for request in found:
                fresh.setdefault(digest(request), request)
            fresh = {key: request for key, request in fresh.items() if key not in self._seen}
            # The file of refused requests has them for good. A kill before the spool has them would show them twice.
            for key, request in fresh.items():
                if request.refused:
                    self._pass_on(key, request)
            self._flush()
            if fresh:
                await run_in_thread(self.spool.append, list(fresh.values()))
            for key, request in fresh.items():
                if not request.refused:
                    self._pass_on(key, request)
        self.statistics.events += len(found)
        self.statistics.repeated += len(found) - len(fresh)
        while len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    def _pass_on(self, key: bytes, request: AuditRequest) -> None:
        self._seen[key] = None
        self._take(request)

    def _busy(self, status: int, message: str) -> Response:
        self.statistics.busy += 1
        response = _refusal(status, message)
        response.headers += _RETRY
        return response

    def _count_too_large(self) -> None:
        self.statistics.refused += 1
        self._report_once(
            f"a batch of more than {LARGEST_BATCH >> 20} MiB is refused by the audit webhook: start the API servers "
            "with --audit-webhook-truncate-enabled, or a smaller --audit-webhook-batch-max-size"
        )

    def _count_unreadable(self, error: Unreadable, events: int) -> None:
        self.statistics.unreadable += events
        self.statistics.why = self.statistics.why or str(error)
        self._report_once(f"something that was sent to the audit webhook is left out: {error}")

    def _report_once(self, problem: str) -> None:
        """Log a problem; the first of its kind, because a sender may have it with every batch."""
        kind = problem[:40]
        if kind not in self._reported:
            self._reported.add(kind)
            logger.warning("%s", problem)


class _TooLarge(Exception):
    """A body has more than LARGEST_BATCH bytes when it is decompressed."""


class _UnknownEncoding(Exception):
    """A body is compressed in a way that we do not read."""


def _events_in(body: bytes, encoding: bytes) -> tuple[list[AuditRequest], Unreadable | None]:
    """The requests of a body, without their contents, and the error of those that are malformed.

    Raises Unreadable if there is no list of events at all.
    """
    found: list[AuditRequest] = []
    name = encoding.strip().lower()
    if name in (b"gzip", b"x-gzip"):
        body = _decompressed(body)
    elif name not in (b"", b"identity"):
        raise _UnknownEncoding(
            f"the Content-Encoding {name[:40].decode('latin-1')} is not known; send gzip, or none"
        )
    if not body:
        raise Unreadable("it is empty")
    try:
        for request in requests_in(body):
            found.append(request.without_content())
    except UnreadableEvents as error:
        return found, error
    return found, None


def _decompressed(body: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        found = decompressor.decompress(body, LARGEST_BATCH + 1)
    except zlib.error as error:
        raise Unreadable(f"it is not compressed with gzip ({error})") from None
    if len(found) > LARGEST_BATCH:
        raise _TooLarge
    if not decompressor.eof:
        raise Unreadable("its gzip stream is cut short")
    return found


def _refusal(status: int, message: str) -> Response:
    return Response(status, dump_line(plain_failure(status, message).document()))
