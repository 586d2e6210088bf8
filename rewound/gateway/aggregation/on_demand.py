"""The connections to aggregated servers, imported and created when the first APIService needs one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rewound.actors.admission.webhooks.services import Services
from rewound.actors.aggregation.api_services import ApiService, ApiServices
from rewound.actors.aggregation.content import NoResponse, RemoteContent
from rewound.actors.certificates.signing import Authorities
from rewound.actors.identity import User
from rewound.actors.names import NAMES
from rewound.actors.runtime.background_import import OnDemand, imported
from rewound.gateway.aggregation.trust import proxy_identity
from rewound.gateway.describe.remote import RemoteDescriptions
from rewound.gateway.settings.settings import Settings
from rewound.journal.log import Journal

if TYPE_CHECKING:
    from rewound.gateway.aggregation.servers import AggregatedServers, Descriptions

# Limit of what controllers read: metrics of all pods that an autoscaler selects.
MAX_DOCUMENT: Final = 16 << 20
DOCUMENT_SECONDS: Final = 10.0
SUCCESS: Final = range(200, 207)


class ServersOnDemand:
    def __init__(
        self, settings: Settings, api_services: ApiServices, journal: Journal, authorities: Authorities
    ) -> None:
        self._settings = settings
        self._api_services = api_services
        self._journal = journal
        self._authorities = authorities
        self._servers = OnDemand("rewound.gateway.aggregation.servers", self._make)
        self._downloads = OnDemand("rewound.gateway.aggregation.servers", self._make_downloads)
        self.descriptions = RemoteDescriptions()

    async def get(self) -> AggregatedServers:
        return await self._servers.get()

    async def _make(self) -> AggregatedServers:
        from rewound.gateway.aggregation.servers import AggregatedServers

        return AggregatedServers(
            self._api_services,
            Services(self._journal),
            partial(proxy_identity, self._settings, self._authorities),
            local_allowed=self._settings.proxy.allow_local_proxy_targets,
        )

    async def _make_downloads(self) -> Descriptions:
        from rewound.gateway.aggregation.servers import Descriptions

        return Descriptions(await self.get(), self.descriptions)

    async def probe(self, one: ApiService) -> str:
        return await (await self.get()).probe(one)

    async def describe(self, one: ApiService | None) -> None:
        """Download the documents of an available server; it may be another process that probes it."""
        remote = self._api_services.remote.values()
        self.descriptions.keep_only(other.discovery_path.strip("/") for other in remote)
        if one is not None and one.available:
            await self.probe(one)
            await (await self._downloads.get()).download(one)

    async def delete_content(self, one: ApiService, namespace: str, user: User) -> RemoteContent:
        """Delete the objects of a namespace on the server; return what remains. Raises Undiscovered."""
        servers = await self.get()
        await imported("rewound.gateway.aggregation.content")
        from rewound.gateway.aggregation.content import NamespaceContent

        names = NAMES[self._settings.dialect]
        return await NamespaceContent(servers, names, one, namespace, user).delete()

    async def get_document(self, one: ApiService, path: str, query: str, user: User, resource: str) -> bytes:
        """The document of a server at a path. Raises NoResponse, with the name of the resource."""
        servers = await self.get()
        await imported("rewound.gateway.aggregation.content")
        from rewound.gateway.aggregation.content import failure_text, status_message
        from rewound.gateway.aggregation.servers import FetchFailed

        try:
            fetched = await servers.fetch(
                one, path, largest=MAX_DOCUMENT, seconds=DOCUMENT_SECONDS, query=query, user=user
            )
        except FetchFailed as error:
            raise NoResponse(str(error)) from None
        if fetched.status in SUCCESS:
            return fetched.body
        raise NoResponse(status_message(fetched.body) or f"{failure_text(fetched)} (get {resource})")

    @property
    def resources(self) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
        """The resources of aggregated group versions, as their servers last responded."""
        servers = self._servers.made
        return {} if servers is None else servers.resources

    def close(self) -> None:
        """Close idle connections."""
        if self._servers.made is not None:
            self._servers.made.connections.close()
