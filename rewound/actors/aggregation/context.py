"""What controllers of APIServices need of the rest of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rewound.actors.aggregation.api_services import ApiService, ApiServices
from rewound.actors.aggregation.content import RemoteContent
from rewound.actors.identity import User


@dataclass(frozen=True, slots=True)
class AggregationContext:
    api_services: ApiServices
    # Asks the server of an APIService for its discovery document; returns why that failed, "" if it did not.
    probe: Callable[[ApiService], Awaitable[str]]
    # Downloads discovery and OpenAPI documents of an available server, and forgets those of servers that are gone.
    describe: Callable[[ApiService | None], Awaitable[None]]
    # The data of the ConfigMap by which aggregated servers know which certificates to trust. CertificateError.
    trust: Callable[[], Awaitable[dict[str, str]]]
    # Deletes the objects of a namespace on an available server, as a user; returns what remains. Undiscovered.
    delete_content: Callable[[ApiService, str, User], Awaitable[RemoteContent]]
    publishes_trust_at_start: bool = False  # otherwise with the first APIService of another server
    # Gets a path with a query from the server of an APIService, as a user; errors name the resource. NoResponse.
    get: Callable[[ApiService, str, str, User, str], Awaitable[bytes]] | None = None
