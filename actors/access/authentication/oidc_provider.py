"""An identity provider: its discovery document and its keys, fetched over HTTPS when a token needs them.

Nothing is fetched at the start of the server. The first token of the provider starts the discovery, which runs in a
task of its own, so that a client that disconnects does not end it for others; tokens that arrive meanwhile wait for the
same fetch. A fetch is never repeated within ten seconds, whether it failed or not: an unreachable provider is asked
again every ten seconds at most, and so is one for whose keys somebody invents ids. What the provider sends
is bounded in size, and a fetch in time. Redirects are not followed.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import orjson
import trio

from actors.access.authentication.oidc_keys import Key, parse_keys
from actors.access.remote.calls import Calls, DocumentError
from actors.background_import import imported
from actors.certificates.trust import verifying

logger = logging.getLogger(__name__)

PAUSE = 10.0  # seconds from the end of a fetch to the next
TIME_LIMIT = 10.0  # of a discovery together with the keys
MAX_BYTES = 256 * 1024  # of a document; those of large providers have less than 10 kB
# Requests that wait for a fetch: everybody can send tokens that need one. Further ones are refused at once.
MAX_WAITING = 1000
DISCOVERY_PATH = "/.well-known/openid-configuration"


class ProviderError(Exception):
    """The provider cannot be used now; the text says why."""


class Provider:
    def __init__(self, issuer: str, ca_file: Path | None, calls: Calls) -> None:
        self.issuer = issuer
        self._calls = calls
        self.keys: tuple[Key, ...] = ()
        self.version = 0  # of the keys: changes whenever they do
        self.fetches = 0  # successful ones
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None
        self._keys_url = ""
        self._document = b""
        self._next = -float("inf")  # when the next fetch may begin
        self._fetching: trio.Event | None = None

    async def refresh(self, seen: int) -> bool:
        """Fetch the keys, unless others have since there were `seen` fetches. False if that is not possible now."""
        if self.fetches != seen:
            return True
        if self._fetching is None:
            if trio.current_time() < self._next:
                return False
            self._fetching = trio.Event()
            trio.lowlevel.spawn_system_task(self._fetch, self._fetching)
        if self._fetching.statistics().tasks_waiting >= MAX_WAITING:
            return False
        await self._fetching.wait()
        return self.fetches != seen

    async def _fetch(self, done: trio.Event) -> None:
        """A system task: no exception may leave it."""
        try:
            with trio.fail_after(TIME_LIMIT):
                await self._fetch_keys()
            self.fetches += 1
        except trio.TooSlowError:
            self._failed(f"no complete response within {TIME_LIMIT:.0f} s")
        except ProviderError as error:
            self._failed(str(error))
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")
        finally:
            self._next = trio.current_time() + PAUSE
            self._fetching = None
            done.set()

    def _failed(self, why: str) -> None:
        self._keys_url = ""  # the next fetch begins with the discovery
        logger.warning(
            "the identity provider %s cannot be used, next try in %.0f s: %s", self.issuer, PAUSE, why
        )

    async def _fetch_keys(self) -> None:
        await imported("jwt")
        if not self._keys_url:
            self._keys_url = _keys_url(
                _parsed(await self._get(self.issuer.rstrip("/") + DISCOVERY_PATH)), self.issuer
            )
        document = await self._get(self._keys_url)
        if document == self._document:
            return
        try:
            keys = await trio.to_thread.run_sync(lambda: parse_keys(_parsed(document)))
        except ValueError as error:
            raise ProviderError(f"{self._keys_url} is no document of keys: {error}") from error
        self.keys, self._document = keys, document
        self.version += 1

    async def _get(self, url: str) -> bytes:
        if self._context is None:
            self._context = await trio.to_thread.run_sync(client_context, self._ca_file)
        try:
            return await self._calls.fetch(url, self._context, MAX_BYTES)
        except DocumentError as error:
            raise ProviderError(str(error)) from None


def _parsed(document: bytes) -> Any:
    try:
        return orjson.loads(document)
    except ValueError:
        raise ProviderError("the document is no JSON") from None


def _keys_url(discovered: Any, issuer: str) -> str:
    if not isinstance(discovered, dict) or discovered.get("issuer") != issuer:
        raise ProviderError("the discovery document is that of another issuer")
    url = discovered.get("jwks_uri")
    if not isinstance(url, str) or not url.startswith("https://"):
        raise ProviderError("the discovery document has no jwks_uri with https")
    return url


def client_context(ca_file: Path | None) -> ssl.SSLContext:
    """The TLS context for calls of the provider. A self-signed certificate in the file counts only with the CA flag."""
    if ca_file is None:
        return verifying(None)
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(ca_file.read_bytes())
    except (ValueError, OSError) as error:
        raise ProviderError(f"the CA file {ca_file} cannot be read: {error}") from error
    trusted = [
        one
        for one in certificates
        if one.subject != one.issuer or _is_authority(one, x509.BasicConstraints, x509.ExtensionNotFound)
    ]
    if not trusted:
        raise ProviderError(f"no certificate in {ca_file} has the CA flag")
    from cryptography.hazmat.primitives.serialization import Encoding

    return verifying(b"".join(one.public_bytes(Encoding.PEM) for one in trusted))


def _is_authority(certificate: Any, constraints: type, missing: type[Exception]) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(constraints).value.ca)
    except (missing, ValueError):
        return False
