"""The certificates that a data folder makes for itself: a cluster CA, a serving and an admin certificate.

`compose` calls `prepare` once at start, after the folder is locked and only if it serves TLS; then
`server_context` and `write_kubeconfig`. The library that makes certificates costs 16 MB once loaded, so it
runs in a child process and only when something is missing, foreign, about to expire or lacks a name.
"""

from actors.certificates.context import server_context
from actors.certificates.kubeconfig import server_url, write_kubeconfig
from actors.certificates.names import serving_names
from actors.certificates.store import CertificateError, Certificates, prepare

__all__ = [
    "CertificateError",
    "Certificates",
    "prepare",
    "server_context",
    "server_url",
    "serving_names",
    "write_kubeconfig",
]
