"""The settings of signing of certificates: the CA of each built-in signer, and how long certificates are valid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actors.names import Names
from gateway.settings.checks import SettingsError, check_certificate_and_key, check_file

if TYPE_CHECKING:
    from actors.certificates.authorities import AuthorityFiles

# The names of signers in flags, which are the same in both dialects.
SIGNERS = ("kubelet-serving", "kubelet-client", "kube-apiserver-client", "legacy-unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSettings:
    """Without files, the data folder's own CA signs."""

    cluster_signing_cert_file: Path | None = None
    cluster_signing_key_file: Path | None = None
    cluster_signing_duration: float = 365 * 86400.0
    cluster_signing_kubelet_serving_cert_file: Path | None = None
    cluster_signing_kubelet_serving_key_file: Path | None = None
    cluster_signing_kubelet_client_cert_file: Path | None = None
    cluster_signing_kubelet_client_key_file: Path | None = None
    cluster_signing_kube_apiserver_client_cert_file: Path | None = None
    cluster_signing_kube_apiserver_client_key_file: Path | None = None
    cluster_signing_legacy_unknown_cert_file: Path | None = None
    cluster_signing_legacy_unknown_key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.cluster_signing_duration < 1:
            raise SettingsError(
                "--cluster-signing-duration", "is less than a second; the usual value is 8760h"
            )
        general = self._pair("")
        for signer in SIGNERS:
            if self._pair(signer) and general:
                raise SettingsError(
                    "--cluster-signing-cert-file",
                    f"is for every signer, and --cluster-signing-{signer}-cert-file for one; "
                    "give one of them, or a file for each signer",
                )

    def files(self, names: Names) -> dict[str, AuthorityFiles]:
        """The CA files by signer, for signers that do not use the data folder's own CA."""
        signers = (names.serving_signer, names.node_client_signer, names.client_signer, names.legacy_signer)
        found = {
            name: self._pair(signer) or self._pair("") for name, signer in zip(signers, SIGNERS, strict=True)
        }
        return {signer: files for signer, files in found.items() if files}

    def _pair(self, signer: str) -> AuthorityFiles | None:
        middle = f"{signer}-" if signer else ""
        prefix = f"cluster_signing_{middle.replace('-', '_')}"
        certificate, key = getattr(self, f"{prefix}cert_file"), getattr(self, f"{prefix}key_file")
        flags = [f"--cluster-signing-{middle}{part}-file" for part in ("cert", "key")]
        if certificate is None and key is None:
            return None
        if key is None:
            raise SettingsError(flags[0], f"needs its key; give it with {flags[1]}")
        if certificate is None:
            raise SettingsError(flags[1], f"needs its certificate; give it with {flags[0]}")
        check_file(flags[0], certificate)
        check_file(flags[1], key)
        check_certificate_and_key(flags, certificate, key)
        from actors.certificates.authorities import AuthorityFiles

        return AuthorityFiles(certificate, key)
