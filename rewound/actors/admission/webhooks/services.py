"""The address behind a Service that a webhook or an APIService names. Every call that the server makes to a Service
asks here.

    annotation sim/address: 127.0.0.1:9443     that address, wherever the pods are
    ExternalName                               its externalName, with the port of the reference
    any other type                             one of the addresses in the Endpoints, chosen at random

No program runs in a simulated pod, and its address means nothing outside this server: on the network of the machine it
may belong to any other host, which must not get what a webhook is sent. Such addresses are never chosen, whoever wrote
them into the Endpoints: those on a simulated node, and those that a pod on one has (`status.podIP`). The annotation
names the program for users who run it next to the server.

Rejected: to refuse the networks of simulated pods. They are most of 10.0.0.0/8, where real webhooks are, too.
"""

from __future__ import annotations

import random
import socket
from typing import Final, NamedTuple

import orjson

from rewound.actors.access.remote.address import ServiceAddress
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.simulated_node import is_simulated
from rewound.actors.kinds.validation import parse_ip
from rewound.actors.messages import Object
from rewound.actors.runtime.turns import ProcessorTurn, next_turn
from rewound.actors.selectors.facts import PackedValue, field_bytes, unpack_value
from rewound.actors.selectors.fields import FieldRequirement, FieldSelector
from rewound.actors.selectors.matcher import search
from rewound.journal.log import Journal
from rewound.journal.view import View

EXTERNAL_NAME: Final = "ExternalName"
ADDRESS: Final = "sim/address"  # an annotation of Services: host and port of a running program
_PORTS: Final = range(1, 65536)
_MOST_CHECKED: Final = 10_000  # nodes whose annotations are remembered
_node_of: Final = PackedValue(field_bytes("spec.nodeName"))  # of the facts of a pod


class Unresolved(Exception):
    """The Service cannot be reached; the text says why."""


class _Candidate(NamedTuple):
    host: str  # of an address its usual form
    port: int
    node: str = ""  # of the pod that has the address, if the Endpoints name it

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Services:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._services = journal.type_id("services")
        self._endpoints = journal.type_id("endpoints")
        self._nodes = journal.type_id("nodes")
        self._pods = journal.type_id("pods")
        self._checked: dict[str, tuple[int, bool]] = {}  # name of a node -> offset, whether it is simulated

    async def resolve(self, address: ServiceAddress) -> str:
        """Host and port to connect to; a different endpoint each time. Raises Unresolved."""
        service = self._read(self._services, address)
        if service is None:
            raise Unresolved(f'service "{address.name}" not found')
        given = (service["metadata"].get("annotations") or {}).get(ADDRESS)
        if given is not None:
            return str(_given(address, given))
        candidates = self._candidates(service, address)
        without_simulated = self._on_real_nodes(candidates)
        random.shuffle(without_simulated)
        for candidate in without_simulated:
            if not await self._is_of_simulated_pod(candidate.host):
                return str(candidate)
        raise Unresolved(
            f'service "{address.name}" leads to simulated pods, in which no program listens: its annotation '
            f"{ADDRESS} may name the address of a running one, such as 127.0.0.1:9443"
        )

    def _candidates(self, service: Object, address: ServiceAddress) -> list[_Candidate]:
        spec = service["spec"]
        if spec.get("type") == EXTERNAL_NAME:
            return [_Candidate(_usual(spec.get("externalName", "")), address.port)]
        port = next((one for one in spec.get("ports", ()) if one["port"] == address.port), None)
        if port is None:
            raise Unresolved(f'no service port {address.port} found for service "{address.name}"')
        endpoints = self._read(self._endpoints, address)
        candidates = _addresses(endpoints or {}, port.get("name", ""))
        if not candidates:
            raise Unresolved(f'no endpoints available for service "{address.name}"')
        return candidates

    def _on_real_nodes(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Those that no simulated node has. A node that is gone among others runs nothing either."""
        with self._journal.read() as view:
            names = {one.node for one in candidates if one.node}
            without_kubelet = {name for name in names if self._has_no_kubelet(view, name)}
        return [one for one in candidates if one.node not in without_kubelet]

    def _has_no_kubelet(self, view: View, name: str) -> bool:
        row = view.get(self._nodes, "", name)
        if row is None:
            return view.count(self._nodes) > 0
        offset, simulated = self._checked.get(name, (0, False))
        if offset != row.offset:
            simulated = is_simulated(orjson.loads(row.body))
            if len(self._checked) >= _MOST_CHECKED:
                self._checked.clear()
            self._checked[name] = row.offset, simulated
        return simulated

    async def _is_of_simulated_pod(self, host: str) -> bool:
        if parse_ip(host) is None:
            return False
        nodes = await self._nodes_of_pods(host)
        with self._journal.read() as view:
            return any(self._has_no_kubelet(view, unpack_value(name)) for name in nodes if name)

    async def _nodes_of_pods(self, host: str) -> set[bytes]:
        """The nodes of the pods that have an address, as facts contain them."""
        wanted = search(None, FieldSelector((FieldRequirement("status.podIP", "=", host),)))
        assert wanted is not None
        nodes: set[bytes] = set()

        def collect(facts: bytes, body: bytes) -> bool:
            if wanted.match(facts, body):
                nodes.add(_node_of(facts))
            return False  # no body is read

        after = None
        while True:
            turn = ProcessorTurn()
            with self._journal.read() as view:
                ready, find = self._journal.columns.step(view, self._pods, None, wanted, turn.over)
                if ready:
                    page = view.page(self._pods, after=after, match=collect, stop=turn.over, find=find)
                    if not page.more:
                        return nodes
                    after = page.last or after
            await next_turn()

    def _read(self, type_id: int, address: ServiceAddress) -> Object | None:
        with self._journal.read() as view:
            row = view.get(type_id, address.namespace, address.name)
        if row is None:
            return None
        stored: Object = orjson.loads(row.body)
        return stored


def _addresses(endpoints: Object, port_name: str) -> list[_Candidate]:
    return [
        _Candidate(_usual(one["ip"]), port["port"], one.get("nodeName", ""))
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if port.get("name", "") == port_name
        for one in subset.get("addresses") or ()
    ]


def _usual(host: str) -> str:
    """The form of an address in which a pod has it: a connection to 10.244.1 leads to 10.244.0.1, too."""
    address = parse_ip(host)
    if address is not None:
        return str(getattr(address, "ipv4_mapped", None) or address)
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return host


def _given(address: ServiceAddress, text: str) -> _Candidate:
    """The address in the annotation."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if port.isascii() and port.isdecimal() and len(port) < 6 and int(port) in _PORTS:
        host = host[1:-1] if bracketed else host
        if host and host.isprintable() and not set(host) & set("/@[]? ") and bracketed == (":" in host):
            return _Candidate(host, int(port))
    raise Unresolved(
        f'the annotation {ADDRESS} of service "{address.name}" is {quoted_start(text)}: '
        "it needs a host and a port, such as 127.0.0.1:9443 or [::1]:9443"
    )
