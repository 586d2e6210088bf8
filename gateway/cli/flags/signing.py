"""The flags of: signing of certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.cli.flags.adding import add, duration
from gateway.settings.signing import SIGNERS


def add_flags(group: Any) -> None:
    add(
        group,
        "--cluster-signing-cert-file",
        Path,
        "FILE",
        "CA certificate that signs certificate signing requests (default the data folder's CA)",
    )
    add(group, "--cluster-signing-key-file", Path, "FILE", "its key")
    add(
        group,
        "--cluster-signing-duration",
        duration,
        "TIME",
        "how long signed certificates are valid at most (default 8760h)",
    )
    for signer in SIGNERS:
        add(
            group,
            f"--cluster-signing-{signer}-cert-file",
            Path,
            "FILE",
            f"CA certificate of the signer {signer}",
        )
        add(group, f"--cluster-signing-{signer}-key-file", Path, "FILE", "its key")
