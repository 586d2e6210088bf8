"""The listener of `rewound open`: plain HTTP on loopback, forwarded to one server with the credentials of its user.

The browser needs neither a certificate nor a token, and trusts no CA: the session does, as those of all commands
(kubeconfig files, plugins, identity providers). The response goes back as it arrives; a long poll waits as long as the
server lets it. While the server cannot be reached, requests get 502 and the terminal a line; the next one tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import trio

from rewound.actors.errors import RequestError
from rewound.cli.open.gate import MAX_BODY, PROTECTION, Gate
from rewound.client.credentials import Credential
from rewound.client.errors import ClientError
from rewound.client.streaming import StreamingSession
from rewound.client.target import environment_proxy
from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.connections.limits import KIB, Limits
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.server import Server
from rewound.gateway.message import Request, Response
from rewound.gateway.outgoing.connections import Connections, InvalidUrl, parse_url
from rewound.gateway.outgoing.response import Field, Head
from rewound.gateway.pipeline.errors import BackendFailed, plain_failure
from rewound.gateway.pipeline.route import PAGE_PATH
from rewound.gateway.proxy.forward import Adapter, Forward, Transform, response_fields
from rewound.gateway.proxy.upstream import Target, Upstream
from rewound.gateway.wire.json import dump_line

Report = Callable[[str], None]

# A browser has six connections to a host; old ones, and those of other programs, may still be open.
_LIMITS: Final = Limits(body=MAX_BODY, target=32 * KIB, head=64 * KIB, headers=100, connections=64)
_MAX_IDLE: Final = 8  # connections to the server, between requests
# The request headers that choose a representation. All others concern this listener or its user.
_SENT_ON: Final = frozenset(
    (b"accept", b"accept-encoding", b"content-type", b"if-modified-since", b"if-none-match", b"user-agent")
)
# Response headers that store something in the browser, or concern other addresses.
_DROPPED: Final = frozenset(
    (b"alt-svc", b"clear-site-data", b"set-cookie", b"strict-transport-security", b"www-authenticate")
)
_PROTECTED: Final = frozenset(name for name, _ in PROTECTION)


class PageListener:
    def __init__(self, session: StreamingSession, page: str, report: Report) -> None:
        """`page`: the path to which links lead. Raises ClientError if the target's address or proxy cannot be used."""
        target = session.target
        proxy = target.proxy_url or environment_proxy(target.server)
        try:
            self._address = parse_url(target.server)
            if proxy:
                parse_url(proxy)
        except InvalidUrl as error:
            raise ClientError(
                f"{target.configured_in}: the address of the server, or of the proxy, does not begin with http or https"
            ) from error
        self._prefix = urlsplit(target.server).path.rstrip("/")
        self._connections = Connections(max_idle=_MAX_IDLE, proxy_url=proxy)
        self._session, self._page, self._report = session, page, report
        self._stopping = trio.Event()
        self._problem = ""  # the problem that was reported last, until it is over
        self._gate: Gate | None = None
        self.port = 0

    @property
    def gate(self) -> Gate:
        assert self._gate is not None, "it listens"
        return self._gate

    async def serve(self, port: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen on this loopback port, 0 for a free one, until cancelled. Raises CannotListen."""
        config = ServerConfig()
        config.listen_on((), (f"127.0.0.1:{port}",))
        server = Server(self.handle, _refuse, _LIMITS)
        try:
            async with trio.open_nursery() as nursery:
                listeners: list[Listener] = await nursery.start(
                    lambda task_status: server.serve(
                        config, tls=None, stop=self._stopping, task_status=task_status
                    )
                )
                address = listeners[0].address
                assert address is not None, "it is no Unix socket"
                self.port = address[1]
                self._gate = Gate(self.port, self._page, trio.current_time, self._report)
                task_status.started()
        finally:
            self._connections.close()

    async def handle(self, request: Request) -> Response:
        refusal = self.gate.refuse(request)
        if refusal is not None:
            return refusal
        try:
            credential = await self._session.credential()
            adapter = _Adapter(self, credential, self._session.headers(credential), request.path)
            target = self._target(request, credential)
        except ClientError as error:
            return self.failed(str(error))
        forward = Forward(request, target, adapter, self._stopping, self._fail, connections=self._connections)
        return Response(200, b"", forwarding=forward)

    def _target(self, request: Request, credential: Credential) -> Target:
        address, session = self._address, self._session
        return Target(
            host=address.host,
            port=address.port,
            path=self._prefix + request.path,
            query=request.query,
            tls=session.context(credential.pair) if address.tls else None,
            server_name=session.target.tls_server_name,
            host_header=address.authority.encode(),
            local_allowed=True,
        )

    async def _fail(self, error: RequestError) -> Response:
        return self.failed(str(error))

    def failed(self, why: str) -> Response:
        """The response to a request that could not be forwarded. The first of several failures prints a line."""
        if why != self._problem:
            self._problem = why
            self._report(f"{why}; trying again with every request of the page")
        body = dump_line(plain_failure(502, why).document())
        return Response(502, body, headers=[*PROTECTION, (b"cache-control", b"no-store")])

    def succeeded(self) -> None:
        if self._problem:
            self._problem = ""
            self._report(f"{self._session.target.server} responds again")

    def rejected(self, credential: Credential) -> RequestError:
        target = self._session.target
        target.credentials.rejected(credential)  # the next request has a fresh one, if there is any
        return BackendFailed(
            f"{target.server} does not accept your credentials any more: sign in again, or check {target.configured_in}"
        )

    def unreachable(self, why: str) -> RequestError:
        return BackendFailed(f"cannot reach {self._session.target.server}: {why}; is the server running?")


class _Adapter(Adapter):
    """Adds the user's credentials to the request, and drops response headers that are not for this origin."""

    cors = False

    def __init__(
        self, listener: PageListener, credential: Credential, fields: list[Field], path: str
    ) -> None:
        self._listener, self._credential, self._fields = listener, credential, fields
        self._is_page = path.startswith(PAGE_PATH)

    def complete_fields(self, fields: list[Field], *, upgrading: bool) -> list[Field]:
        sent = [one for one in fields if one[0] in _SENT_ON]
        names = {name for name, _ in sent}
        host = [one for one in fields if one[0] == b"host"]
        return [*host, *sent, *(one for one in self._fields if one[0] not in names)]

    async def response(self, head: Head, upstream: Upstream) -> tuple[Response, Transform | None]:
        if head.status == 401:
            raise self._listener.rejected(self._credential)
        location = head.get(b"location")
        if location and (not location.startswith(b"/") or location.startswith(b"//")):
            raise BackendFailed("the server redirects to another address, which is not followed")
        self._listener.succeeded()
        dropped = _DROPPED if self._is_page else _DROPPED | _PROTECTED
        headers = [one for one in response_fields(head, cors=False) if one[0] not in dropped]
        if not self._is_page:
            headers += PROTECTION
        return Response(head.status, b"", head.get(b"content-type"), headers), None

    def unreachable(self, why: str, *, upgrading: bool) -> RequestError:
        return self._listener.unreachable(why)


def _refuse(status: int, message: str) -> Response:
    """The response to bytes that are no HTTP request."""
    return Response(status, dump_line(plain_failure(status, message).document()), headers=PROTECTION[:])
