"""Files of kubeconfig format with one user, such as `admin.kubeconfig`; only its owner reads them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from rewound.actors.certificates.names import address_of
from rewound.actors.certificates.pki import Certificates, write_atomically

_TEMPLATE = """\
apiVersion: v1
kind: Config
current-context: rewound
clusters:
- name: rewound
  cluster:
    server: {server}
    certificate-authority-data: {authority}
contexts:
- name: rewound
  context:
    cluster: rewound
    user: {name}
users:
- name: {name}
  user:
    {credentials}
"""


def write_kubeconfig(path: Path, url: str, authority: Path, certificates: Certificates) -> bool:
    """Write the file if its contents change; returns whether they did.

    `authority` is the CA of the serving certificate, or that certificate itself if an operator provided it.
    """
    return write_user(
        path,
        url,
        authority,
        "admin",
        {
            "client-certificate-data": _encoded(certificates.certificate("admin")),
            "client-key-data": _encoded(certificates.key("admin")),
        },
    )


def write_user(path: Path, url: str, authority: Path, name: str, credentials: Mapping[str, str]) -> bool:
    """Write the file of a user if its contents change; returns whether they did."""
    text = _TEMPLATE.format(
        server=url,
        authority=_encoded(authority),
        name=name,
        credentials="\n    ".join(f"{field}: {value}" for field, value in credentials.items()),
    ).encode()
    if path.exists() and path.read_bytes() == text:
        return False
    write_atomically(path, text, 0o600)
    return True


def server_url(bind_address: str, port: int) -> str:
    """The URL for clients on this machine."""
    address = address_of(bind_address)
    if address is None:
        return f"https://{bind_address}:{port}"
    if address.is_unspecified:
        return f"https://127.0.0.1:{port}" if address.version == 4 else f"https://[::1]:{port}"
    return f"https://[{address}]:{port}" if address.version == 6 else f"https://{address}:{port}"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
