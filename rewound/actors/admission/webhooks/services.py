"""Where the Service of a webhook is: one of its endpoints, or the name of an external one."""

from __future__ import annotations

import random
from typing import Final

import orjson

from rewound.actors.access.remote.address import ServiceAddress
from rewound.actors.messages import Object
from rewound.journal.log import Journal

EXTERNAL_NAME: Final = "ExternalName"


class Unresolved(Exception):
    """The Service cannot be reached; the text says why."""


class Services:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._services = journal.type_id("services")
        self._endpoints = journal.type_id("endpoints")

    def resolve(self, address: ServiceAddress) -> str:
        """Host and port to connect to; a different endpoint each time."""
        service = self._read(self._services, address)
        if service is None:
            raise Unresolved(f'service "{address.name}" not found')
        spec = service["spec"]
        if spec.get("type") == EXTERNAL_NAME:
            return f"{spec.get('externalName', '')}:{address.port}"
        port = next((one for one in spec.get("ports", ()) if one["port"] == address.port), None)
        if port is None:
            raise Unresolved(f'no service port {address.port} found for service "{address.name}"')
        endpoints = self._read(self._endpoints, address)
        found = _addresses(endpoints or {}, port.get("name", ""))
        if not found:
            raise Unresolved(f'no endpoints available for service "{address.name}"')
        return random.choice(found)

    def _read(self, type_id: int, address: ServiceAddress) -> Object | None:
        with self._journal.read() as view:
            row = view.get(type_id, address.namespace, address.name)
        if row is None:
            return None
        stored: Object = orjson.loads(row.body)
        return stored


def _addresses(endpoints: Object, port_name: str) -> list[str]:
    return [
        f"[{one['ip']}]:{port['port']}" if ":" in one["ip"] else f"{one['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if port.get("name", "") == port_name
        for one in subset.get("addresses") or ()
    ]
