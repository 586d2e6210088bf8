"""Connections to the servers behind APIServices, for clients' requests and for our own.

The Service of an APIService leads to one of its endpoints, or to an external name. The server's certificate must be
valid for `<service>.<namespace>.svc`, unless the APIService disables verification. This server presents its proxy
certificate, by which the other one knows that it may trust the header fields about the user.

`Descriptions` downloads their OpenAPI documents, limited in size and time. No client's request waits for a download:
the OpenAPI handler uses the documents that were downloaded last. A document whose ETag has not changed is not
downloaded again.
"""

from __future__ import annotations

import logging
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import trio

from rewound.actors.admission.webhooks.services import Services, Unresolved
from rewound.actors.aggregation.api_services import ApiService, ApiServices
from rewound.actors.certificates.trust import InvalidBundle, unverifying, verifying
from rewound.actors.errors import RequestError
from rewound.actors.identity import MASTERS, User
from rewound.actors.runtime.threads import run_in_thread
from rewound.gateway.aggregation.identity import user_fields
from rewound.gateway.describe.compressed import compress_document
from rewound.gateway.describe.remote import RemoteDescriptions, spec_of
from rewound.gateway.outgoing.connections import Connections
from rewound.gateway.outgoing.response import Field
from rewound.gateway.proxy.upstream import Target, Unreachable, Upstream, UpstreamFailed, connect

# The user as whom the server requests discovery and OpenAPI documents.
AGGREGATOR: Final = User("system:kube-aggregator", groups=(MASTERS,))
PROBE_SECONDS: Final = 5.0
MAX_DISCOVERY: Final = 1 << 20
MAX_IDLE: Final = 64  # connections
DOWNLOAD_SECONDS: Final = 10.0
MAX_DOCUMENT: Final = 4 << 20  # paths of OpenAPI
MAX_INDEX: Final = 1 << 20
_MAX_CONTEXTS: Final = 128
_JSON: Final = b"application/json"
_ROOT: Final = "/openapi/v3"
_OK: Final = range(200, 300)

Identity = Callable[[], Awaitable[tuple[Path, Path]]]  # certificate and key


class FetchFailed(Exception):
    """No usable response; the text says why."""


class Fetched(NamedTuple):
    status: int
    etag: bytes
    content_type: bytes
    body: bytes


class AggregatedServers:
    def __init__(
        self, api_services: ApiServices, services: Services, identity: Identity, *, local_allowed: bool
    ) -> None:
        self.api_services = api_services
        self._services = services
        self._identity = identity
        self._local_allowed = local_allowed
        self._contexts: OrderedDict[tuple[bytes, bool, int], ssl.SSLContext] = OrderedDict()
        self.connections = Connections(max_idle=MAX_IDLE)
        # The entries of the APIResourceLists in the replies to the last probes, by group and version.
        self.resources: dict[tuple[str, str], list[dict[str, Any]]] = {}

    async def target(self, one: ApiService, path: str, query: str = "") -> Target:
        """The target for an APIService. Raises Unresolved or InvalidBundle."""
        assert one.service is not None
        context = await self._context(one)
        host, _, port = (await self._services.resolve(one.service)).rpartition(":")
        dialled = f"{host}:{port}"
        return Target(
            host=host.strip("[]"),
            port=int(port),
            path=path,
            query=query,
            tls=context,
            server_name=one.service.host,
            host_header=dialled.encode(),
            local_allowed=self._local_allowed,
        )

    async def _context(self, one: ApiService) -> ssl.SSLContext:
        identity = await self._identity()
        key = one.ca_bundle, one.insecure, identity[0].stat().st_mtime_ns  # it is renewed every year
        found = self._contexts.get(key)
        if found is None:
            # In a thread: it reads files, and the system's root certificates take tens of milliseconds.
            made = await run_in_thread(partial(_make_context, one.ca_bundle, one.insecure, identity))
            found = self._contexts.setdefault(key, made)
        self._contexts.move_to_end(key)
        if len(self._contexts) > _MAX_CONTEXTS:
            self._contexts.popitem(last=False)
        return found

    async def probe(self, one: ApiService) -> str:
        """Request the discovery document of the group version; return why that failed, "" if it did not."""
        path = one.discovery_path
        try:
            url = f"https://{(await self.target(one, path)).authority}{path}"
        except (Unresolved, InvalidBundle) as error:
            return str(error)
        try:
            fetched = await self.fetch(one, path, largest=MAX_DISCOVERY, seconds=PROBE_SECONDS)
        except FetchFailed as error:
            return f'failing or missing response from {url}: Get "{url}": {error}'
        if fetched.status not in _OK:
            return f"failing or missing response from {url}: bad status from {url}: {fetched.status}"
        self.resources[one.group, one.version] = await run_in_thread(_resources, fetched.body)
        return ""

    async def fetch(
        self,
        one: ApiService,
        path: str,
        *,
        largest: int,
        seconds: float,
        etag: bytes = b"",
        accept: bytes = b"",
        query: str = "",
        method: str = "GET",
        user: User = AGGREGATOR,
    ) -> Fetched:
        """The response to a request without a body, of at most this size. Raises FetchFailed."""
        fields = [(b"accept", accept or b"application/json"), (b"accept-encoding", b"identity")]
        if etag:
            fields.append((b"if-none-match", etag))
        try:
            with trio.fail_after(seconds):
                target = await self.target(one, path, query)
                return await self._fetch(method, target, [*fields, *user_fields(user)], largest)
        except trio.TooSlowError:
            raise FetchFailed("context deadline exceeded") from None
        except (Unresolved, InvalidBundle, Unreachable, UpstreamFailed, RequestError) as error:
            raise FetchFailed(str(error)) from None

    async def _fetch(self, method: str, target: Target, fields: list[Field], largest: int) -> Fetched:
        stream = await connect(self.connections, target)
        upstream, complete = Upstream(stream, method), False
        try:
            head = [(b"host", target.host_header or b""), *fields]
            await upstream.send_head(target.request_target, head, chunked=False)
            received = await upstream.read_head()
            parts, size = [], 0
            while part := await upstream.read_part():
                size += len(part)
                if size > largest:
                    raise FetchFailed(f"the response is larger than {largest} bytes")
                parts.append(part)
            complete = upstream.reusable
            return Fetched(
                received.status, received.get(b"etag"), received.get(b"content-type"), b"".join(parts)
            )
        finally:
            if complete:
                self.connections.keep(target.endpoint, stream)
            else:
                stream.close()


def _make_context(ca_bundle: bytes, insecure: bool, identity: tuple[Path, Path]) -> ssl.SSLContext:
    context = unverifying() if insecure else verifying(ca_bundle or None)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(*identity)
    return context


def _resources(body: bytes) -> list[dict[str, Any]]:
    try:
        found = orjson.loads(body)["resources"]
        return [one for one in found if isinstance(one, dict) and isinstance(one.get("name"), str)]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []


logger = logging.getLogger(__name__)


class Descriptions:
    def __init__(self, servers: AggregatedServers, known: RemoteDescriptions) -> None:
        self._servers = servers
        self._known = known
        self._etags: dict[tuple[str, str], bytes] = {}  # by section and path

    async def download(self, one: ApiService) -> None:
        """Update both documents of a group version; those that cannot be downloaded stay as they were."""
        section = one.discovery_path.strip("/")
        for refresh in (self._version_3, self._version_2):
            try:
                await refresh(one, section)
            except (FetchFailed, ValueError, TypeError, AttributeError) as error:
                logger.info("no OpenAPI document of %s: %s", one.name, error)

    async def _version_3(self, one: ApiService, section: str) -> None:
        index = await self._servers.fetch(one, _ROOT, largest=MAX_INDEX, seconds=DOWNLOAD_SECONDS)
        if index.status != 200:
            return
        entry = orjson.loads(index.body).get("paths", {}).get(section)
        path = (entry or {}).get("serverRelativeURL", "")
        if not path.startswith(f"{_ROOT}/") or not path.isascii() or not path.isprintable() or " " in path:
            return
        fetched = await self._changed(one, section, path)
        if fetched is not None:
            self._known.put_document(section, await compress_document(iter([fetched.body]), _JSON))

    async def _version_2(self, one: ApiService, section: str) -> None:
        fetched = await self._changed(one, section, "/openapi/v2")
        if fetched is not None:
            spec = await run_in_thread(partial(spec_of, fetched.body, section))
            self._known.put_spec(section, spec)

    async def _changed(self, one: ApiService, section: str, path: str) -> Fetched | None:
        """The document; None if it has not changed."""
        key = section, path.partition("?")[0]
        known = self._known.documents if path.startswith(_ROOT) else self._known.specs
        etag = self._etags.get(key, b"") if section in known else b""
        fetched = await self._servers.fetch(
            one, path, largest=MAX_DOCUMENT, seconds=DOWNLOAD_SECONDS, etag=etag
        )
        if fetched.status != 200 or (etag and fetched.etag == etag):
            return None
        self._etags[key] = fetched.etag
        return fetched
