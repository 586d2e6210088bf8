"""What the controllers of APIServices need from the rest of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from rewound.actors.aggregation.api_services import ApiService, ApiServices
from rewound.actors.aggregation.content import RemoteContent
from rewound.actors.identity import User


class AggregationContext(msgspec.Struct, frozen=True):
    api_services: ApiServices
    # Requests the discovery document from the server of an APIService; returns why that failed, or "".
    probe: Callable[[ApiService], Awaitable[str]]
    # Downloads discovery and OpenAPI documents of an available server, and drops those of removed servers.
    describe: Callable[[ApiService | None], Awaitable[None]]
    # Returns the data of the ConfigMap that says which certificates aggregated servers should trust. Raises
    # CertificateError if the certificates cannot be used.
    trust: Callable[[], Awaitable[dict[str, str]]]
    # Deletes the objects of a namespace on an available server, as a user; returns what is left. Raises Undiscovered
    # if the resources of the server are unknown.
    delete_content: Callable[[ApiService, str, User], Awaitable[RemoteContent]]
    publishes_trust_at_start: bool = False  # otherwise with the first APIService of another server
    # Gets a path with a query from the server of an APIService, as a user; errors name the resource. Raises
    # NoResponse if the server does not send the expected response.
    get: Callable[[ApiService, str, str, User, str], Awaitable[bytes]] | None = None
