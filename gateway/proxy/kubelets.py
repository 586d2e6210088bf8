"""Kubelets: where the agent of a node is, and with which certificates the server connects to it."""

from __future__ import annotations

import ssl
from functools import cached_property
from typing import Final

from actors.certificates.trust import unverifying, verifying
from actors.messages import Object
from gateway.pipeline.errors import BackendUnavailable
from gateway.settings.proxy import ProxySettings

DEFAULT_PORT: Final = 10250


class Kubelets:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self.connect_seconds = settings.kubelet_timeout

    def address(self, name: str, node: Object) -> tuple[str, int]:
        """Host and port of the agent of a node. BackendUnavailable."""
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
        """Verifies kubelets if a CA is configured."""
        authority = self._settings.kubelet_certificate_authority
        return self._identified(unverifying() if authority is None else verifying(authority.read_bytes()))

    @cached_property
    def trusting_tls(self) -> ssl.SSLContext:
        """For clients that ask to read logs whoever the kubelet is."""
        return self._identified(unverifying())

    def _identified(self, context: ssl.SSLContext) -> ssl.SSLContext:
        certificate, key = self._settings.kubelet_client_certificate, self._settings.kubelet_client_key
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        return context
