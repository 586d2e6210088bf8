"""The address of a webhook: a URL, or a Service of the cluster with a path."""

from __future__ import annotations

from functools import lru_cache
from posixpath import normpath
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote_to_bytes, urlsplit, urlunsplit

_UNESCAPED = "/$&+,:;=@-_.~"  # unescaped in a path, as in Go


class ServiceAddress(NamedTuple):
    namespace: str
    name: str
    port: int

    @property
    def host(self) -> str:
        """The name that the certificate of the webhook must have."""
        return f"{self.name}.{self.namespace}.svc"


@lru_cache(maxsize=512)
def cleaned_url(url: str) -> str:
    """The URL to call for this one: without query and fragment, its path cleaned by `cleaned_path`.

    Raises ValueError for an invalid one.
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, cleaned_path(unquote_to_bytes(parts.path)), "", ""))


@lru_cache(maxsize=512)
def cleaned_path(path: str | bytes) -> str:
    """The path to request for this one, which has no escapes.

    As in Kubernetes clients, empty segments, `.`, `..` and a trailing slash are removed.
    """
    raw = path.encode() if isinstance(path, str) else path
    return quote(b"/" + normpath(b"/" + raw).lstrip(b"/"), safe=_UNESCAPED)


class WebhookAddress(NamedTuple):
    url: str  # of a Service, only the path
    service: ServiceAddress | None
    ca_bundle: bytes  # empty: the system's roots
    seconds: int


class Addressed(Protocol):
    """Has the attributes of `WebhookAddress`."""

    @property
    def url(self) -> str: ...

    @property
    def service(self) -> ServiceAddress | None: ...

    @property
    def ca_bundle(self) -> bytes: ...

    @property
    def seconds(self) -> int: ...
