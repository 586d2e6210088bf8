"""The addresses to which requests for pods, services and nodes are forwarded, and those of kubelets (`Kubelets`).

    pods/web:8080            the pod's address, port 8080; without a port the first one that a container declares
    services/https:web:api   an address of the port `api` in the service's Endpoints, with TLS
    nodes/n1                 the kubelet of the node; with another port, the node itself

As in Kubernetes, a service leads only to addresses that belong to a pod of its namespace.
"""

from __future__ import annotations

import random
import re
import ssl
from functools import cached_property
from typing import Final, NamedTuple

from rewound.actors.certificates.trust import unverifying, verifying
from rewound.actors.errors import BadRequest, NotFound
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.simulated_node import is_simulated
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.store.document import decode
from rewound.actors.store.reads import Reads
from rewound.gateway.outgoing.connections import is_global
from rewound.gateway.pipeline.errors import BackendUnavailable
from rewound.gateway.proxy.upstream import NO_ADDRESS, NOT_ALLOWED, Target
from rewound.gateway.settings.settings import ProxySettings

_SCHEMES = ("http", "https", "")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")  # number of a service's port; anything else is a name
_DEFAULT_PORTS = {True: 443, False: 80}


class Requested(NamedTuple):
    """The parts of the name in a path: [scheme:]name[:port]."""

    scheme: str
    name: str
    port: str


def parse_requested(kind: str, text: str) -> Requested:
    """Parse the name in a path. Raises BadRequest."""
    parts = text.split(":")
    scheme, name, port = (
        (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", parts[0], parts[1] if parts[1:] else "")
    )
    if len(parts) > 3 or not name or scheme not in _SCHEMES:
        raise BadRequest(f"invalid {kind} request {quoted_start(text)}")
    return Requested(scheme, name, port)


class Locations:
    def __init__(self, registry: Registry, reads: Reads, kubelets: Kubelets, *, local_allowed: bool) -> None:
        self._registry = registry
        self._reads = reads
        self._kubelets = kubelets
        self._local_allowed = local_allowed

    @cached_property
    def _pod_tls(self) -> ssl.SSLContext:
        return unverifying()

    def proxied(self, definition: Definition, namespace: str, text: str, path: str, query: str) -> Target:
        """The target of pods/proxy, services/proxy or nodes/proxy. Raises BadRequest, NotFound, BackendUnavailable."""
        requested = parse_requested(definition.kind.lower(), text)
        if definition.kind == "Node":
            return self._node(requested, path, query)
        if definition.kind == "Service":
            host, port = self._service(namespace, requested, text)
        else:
            host, port = self._pod(namespace, requested)
        return self._target(requested, host, port, path, query)

    def is_simulated(self, pod: Object) -> bool:
        """Whether a pod is on a simulated node."""
        name: str = (pod.get("spec") or {}).get("nodeName") or ""
        try:
            return bool(name) and is_simulated(self._read("nodes", "", name))
        except NotFound:
            return False

    def kubelet(self, pod: Object, path: str, query: str, *, verified: bool = True) -> Target | None:
        """The kubelet of a pod's node; None if the pod has no node. Raises NotFound or BackendUnavailable."""
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            return None
        try:
            stored = self._read("nodes", "", node)
        except NotFound as error:
            error.message = (
                f"pod {pod['metadata']['name']} is on node {node}, which does not exist: {error.message}"
            )
            raise
        return self._kubelet(node, stored, path, query, verified=verified)

    def _kubelet(self, name: str, node: Object, path: str, query: str, *, verified: bool = True) -> Target:
        host, port = self._kubelets.address(name, node)
        return Target(
            host=host,
            port=port,
            path=path,
            query=query,
            tls=self._kubelets.tls if verified else self._kubelets.trusting_tls,
            connect_seconds=self._kubelets.connect_seconds,
            local_allowed=self._local_allowed,
        )

    def _node(self, requested: Requested, path: str, query: str) -> Target:
        node = self._read("nodes", "", requested.name)
        if is_simulated(node):
            raise _simulated(node)
        kubelet = self._kubelet(requested.name, node, path, query)
        if requested.port in ("", str(kubelet.port)):
            return kubelet
        return self._target(requested, kubelet.host, requested.port, path, query)

    def _pod(self, namespace: str, requested: Requested) -> tuple[str, str]:
        pod = self._read("pods", namespace, requested.name)
        if self.is_simulated(pod):
            raise _simulated(pod)
        port = requested.port or _first_port(pod)
        addresses = _addresses_of(pod)
        host = addresses[0] if addresses else ""
        if not host:
            raise BadRequest(NO_ADDRESS)
        if not (self._local_allowed or is_global(host)):
            raise BadRequest(NOT_ALLOWED)
        return host, port

    def _service(self, namespace: str, requested: Requested, text: str) -> tuple[str, str]:
        port = self._port_name(namespace, requested)
        endpoints = self._endpoints(namespace, requested.name)
        subsets = endpoints.get("subsets") or []
        if not subsets:
            raise _no_endpoints(requested.name)
        for subset in random.sample(subsets, len(subsets)):
            numbers = [one["port"] for one in subset.get("ports") or () if one.get("name", "") == port]
            addresses = subset.get("addresses") or []
            for address in random.sample(addresses, len(addresses)) if numbers else ():
                if self._belongs_to_pod(namespace, address):
                    return address["ip"], str(numbers[0])
        raise _no_endpoints(text)

    def _endpoints(self, namespace: str, service: str) -> Object:
        """The Endpoints of a service; like in Kubernetes, a service without them is not found."""
        try:
            return self._read("endpoints", namespace, service)
        except NotFound:
            raise NotFound(self._definition("services").resource, service) from None

    def _port_name(self, namespace: str, requested: Requested) -> str:
        """The name of the port in the Endpoints; a number is one of the service's own ports."""
        if not _NUMBER.fullmatch(requested.port):
            return requested.port
        number = int(requested.port)
        service = self._read("services", namespace, requested.name)
        for port in service["spec"].get("ports") or ():
            if port["port"] == number:
                name: str = port.get("name", "")
                return name
        raise BackendUnavailable(f"no service port {number} found for service {quoted_start(requested.name)}")

    def _belongs_to_pod(self, namespace: str, address: Object) -> bool:
        reference = address.get("targetRef") or {}
        if reference.get("namespace") != namespace:
            return False
        try:
            pod = self._read("pods", namespace, reference.get("name", ""))
        except NotFound:
            return False
        if self.is_simulated(pod):
            raise _simulated(pod)
        return address["ip"] in _addresses_of(pod)

    def _target(self, requested: Requested, host: str, port: str, path: str, query: str) -> Target:
        secure = requested.scheme == "https"
        if port and not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
            raise BackendUnavailable(
                f"error trying to reach service: dial tcp: lookup tcp/{port}: unknown port"
            )
        return Target(
            host=host,
            port=int(port) if port else _DEFAULT_PORTS[secure],
            path=path,
            query=query,
            tls=self._pod_tls if secure else None,
            local_allowed=self._local_allowed,
        )

    def read_pod(self, namespace: str, name: str) -> Object:
        return self._read("pods", namespace, name)

    def _read(self, plural: str, namespace: str, name: str) -> Object:
        stored: Object = decode(self._reads.get(self._definition(plural), namespace, name))
        return stored

    def _definition(self, plural: str) -> Definition:
        definition = self._registry.current.find("", "v1", plural)
        assert definition is not None
        return definition


def _first_port(pod: Object) -> str:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            return str(port["containerPort"])
    return ""


def _addresses_of(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    return [one["ip"] for one in status.get("podIPs") or () if one.get("ip")]


def _simulated(stored: Object) -> BackendUnavailable:
    """The error for a simulated node, or a pod on one, at whose address nothing listens."""
    return BackendUnavailable(f"{stored['metadata']['name']} is simulated: no program listens there")


def _no_endpoints(name: str) -> BackendUnavailable:
    return BackendUnavailable(f"no endpoints available for service {quoted_start(name)}")


DEFAULT_PORT: Final = 10250


class Kubelets:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self.connect_seconds = settings.kubelet_timeout

    def address(self, name: str, node: Object) -> tuple[str, int]:
        """Host and port of a node's kubelet. Raises BackendUnavailable if the node reports none."""
        status = node.get("status") or {}
        known = status.get("addresses") or []
        for kind in self._settings.address_types:
            for one in known:
                if one["type"] == kind and one["address"]:
                    reported = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
                    port = reported.get("Port") or 0
                    return one["address"], port if port > 0 else DEFAULT_PORT
        shown = " ".join(f"{{{one['type']} {one['address']}}}" for one in known)
        raise BackendUnavailable(
            f"node {name} reports no address of its agent in status.addresses: "
            f"no preferred addresses found; known addresses: [{shown}]"
        )

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """A context that verifies kubelets if a CA is configured."""
        authority = self._settings.kubelet_certificate_authority
        return self._identified(unverifying() if authority is None else verifying(authority.read_bytes()))

    @cached_property
    def trusting_tls(self) -> ssl.SSLContext:
        """A context for clients that request logs without verifying the kubelet."""
        return self._identified(unverifying())

    def _identified(self, context: ssl.SSLContext) -> ssl.SSLContext:
        certificate, key = self._settings.kubelet_client_certificate, self._settings.kubelet_client_key
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        return context
