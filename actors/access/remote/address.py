"""Where a webhook is: a URL, or a Service of the cluster with a path."""

from __future__ import annotations

from typing import Protocol

from journal.classes.named_tuple import NamedTuple


class ServiceAddress(NamedTuple):
    namespace: str
    name: str
    port: int

    @property
    def host(self) -> str:
        """The name that the certificate of the webhook must have."""
        return f"{self.name}.{self.namespace}.svc"


class WebhookAddress(NamedTuple):
    url: str  # of a service, only the path
    service: ServiceAddress | None
    ca_bundle: bytes  # empty: the roots of the system
    seconds: int


class Addressed(Protocol):
    """Has what `WebhookAddress` has."""

    @property
    def url(self) -> str: ...

    @property
    def service(self) -> ServiceAddress | None: ...

    @property
    def ca_bundle(self) -> bytes: ...

    @property
    def seconds(self) -> int: ...
