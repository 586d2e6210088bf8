"""Downloads the OpenAPI documents of aggregated servers, bounded in size and time.

Nothing that a client asks for waits for a download: the OpenAPI handler has the documents that were downloaded last. A
document whose ETag has not changed is not downloaded again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import orjson
import trio

from actors.aggregation.api_services import ApiService
from gateway.aggregation.servers import AggregatedServers, Fetched, FetchFailed
from gateway.describe.compressed import compress_document
from gateway.describe.remote import RemoteDescriptions, spec_of

logger = logging.getLogger(__name__)

MAX_DOCUMENT: Final = 4 << 20
MAX_INDEX: Final = 1 << 20
SECONDS: Final = 10.0
_JSON: Final = b"application/json"
_ROOT: Final = "/openapi/v3"


class Descriptions:
    def __init__(self, servers: AggregatedServers, known: RemoteDescriptions) -> None:
        self._servers = servers
        self._known = known
        self._etags: dict[tuple[str, str], bytes] = {}  # by section and path

    async def download(self, one: ApiService) -> None:
        """Bring both documents of a group version up to date; those that cannot be had stay as they were."""
        section = one.discovery_path.strip("/")
        for refresh in (self._version_3, self._version_2):
            try:
                await refresh(one, section)
            except (FetchFailed, ValueError, TypeError, AttributeError) as error:
                logger.info("no OpenAPI document of %s: %s", one.name, error)

    async def _version_3(self, one: ApiService, section: str) -> None:
        index = await self._servers.fetch(one, _ROOT, largest=MAX_INDEX, seconds=SECONDS)
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
            spec = await trio.to_thread.run_sync(partial(spec_of, fetched.body, section))
            self._known.put_spec(section, spec)

    async def _changed(self, one: ApiService, section: str, path: str) -> Fetched | None:
        """The document, None if it is the one that is known."""
        key = section, path.partition("?")[0]
        known = self._known.documents if path.startswith(_ROOT) else self._known.specs
        etag = self._etags.get(key, b"") if section in known else b""
        fetched = await self._servers.fetch(one, path, largest=MAX_DOCUMENT, seconds=SECONDS, etag=etag)
        if fetched.status != 200 or (etag and fetched.etag == etag):
            return None
        self._etags[key] = fetched.etag
        return fetched
