"""The settings of forwarded requests: how the server connects to kubelets and to aggregated servers, and which targets
it refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.settings.checks import (
    SettingsError,
    check_authorities,
    check_certificate_and_key,
    check_choice,
    check_file,
    split_list,
)

ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_TYPES_FLAG = "--kubelet-preferred-address-types"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    kubelet_certificate_authority: Path | None = None  # None: the certificates of kubelets are not verified
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None
    kubelet_preferred_address_types: tuple[str, ...] = ADDRESS_TYPES
    kubelet_timeout: float = 5.0  # seconds to connect
    allow_local_proxy_targets: bool = False
    # By which aggregated servers know this one; None: a certificate of the data folder.
    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None

    def __post_init__(self) -> None:
        check_authorities("--kubelet-certificate-authority", self.kubelet_certificate_authority)
        check_file("--kubelet-client-certificate", self.kubelet_client_certificate)
        check_file("--kubelet-client-key", self.kubelet_client_key)
        _check_pair(
            ["--kubelet-client-certificate", "--kubelet-client-key"],
            self.kubelet_client_certificate,
            self.kubelet_client_key,
        )
        check_file("--proxy-client-cert-file", self.proxy_client_cert_file)
        check_file("--proxy-client-key-file", self.proxy_client_key_file)
        _check_pair(
            ["--proxy-client-cert-file", "--proxy-client-key-file"],
            self.proxy_client_cert_file,
            self.proxy_client_key_file,
        )
        for one in self.address_types:
            check_choice(_TYPES_FLAG, one, ADDRESS_TYPES)
        if self.kubelet_timeout <= 0:
            raise SettingsError("--kubelet-timeout", "must be longer than nothing; the usual value is 5s")

    @property
    def address_types(self) -> list[str]:
        return split_list(_TYPES_FLAG, self.kubelet_preferred_address_types)


def _check_pair(flags: list[str], certificate: Path | None, key: Path | None) -> None:
    if (certificate is None) != (key is None):
        given, missing = flags if key is None else flags[::-1]
        raise SettingsError(given, f"has no effect without {missing}; add it or leave this out")
    if certificate is not None and key is not None:
        check_certificate_and_key(flags, certificate, key)
