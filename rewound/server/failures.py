"""Explains errors of a start that the operator can fix: one sentence each, with what to do next.

Any other error is a bug, and the server prints its traceback.
"""

from __future__ import annotations

import errno

from rewound.actors.access.accounts.keys import AccountKeyError
from rewound.actors.certificates.pki import CertificateError
from rewound.gateway.connections.listen import CannotListen
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import QUIC, Address, host_and_port
from rewound.gateway.settings.settings import Settings
from rewound.journal.errors import JournalError

_KNOWN = (SettingsError, AccountKeyError, CertificateError, JournalError)
_ADVICE = {
    errno.EADDRINUSE: "stop what listens there, or give another",
    errno.ENOENT: "create its folder, or give another",
    errno.EACCES: "give one that this user may use",
}


def explain(error: BaseException, settings: Settings) -> str | None:
    """Explain an error; None if the operator cannot fix it."""
    if isinstance(error, BaseExceptionGroup):
        explained = [explain(one, settings) for one in error.exceptions]
        # A group is explained only if every error in it is.
        return explained[0] if None not in explained else None
    from rewound.actors.etcd.api import EtcdError, EtcdFull
    from rewound.actors.store.etcd.records import UnknownLayout

    if isinstance(error, (*_KNOWN, UnknownLayout)):
        return str(error)
    if isinstance(error, EtcdFull):
        return f"--journal: {error}"  # a node that joins a cluster without writing to it starts anyway
    if isinstance(error, EtcdError):
        return (
            f"--journal: {error}; start etcd, or give the addresses and credentials with which it is reached"
        )
    if isinstance(error, CannotListen):
        return _listener_error(error, settings)
    if isinstance(error, OSError) and error.filename:
        return _folder_error(error, settings)
    return None


def _folder_error(error: OSError, settings: Settings) -> str | None:
    if not str(error.filename).startswith(str(settings.data_dir)):
        return None
    return f"--data-dir: {error.filename}: {error.strerror}; make it readable and writable, or name another folder"


def _listener_error(error: CannotListen, settings: Settings) -> str:
    """Name the flag or the key of --server-config that says where to listen, and what to do."""
    if error.bind.startswith(QUIC):
        return f"--quic-bind: {settings.quic_bind}: {error.why}; {_ADVICE.get(error.number, 'give another')}"
    for key, flag, address in (
        ("bind", "--secure-port", settings.secure),
        ("insecure_bind", "--insecure-port", settings.insecure),
    ):
        given = settings.server.binds(key)
        if given is not None and error.bind in given:
            return str(settings.server.refuse(key, f"{error}; {_ADVICE.get(error.number, 'give another')}"))
        if given is None and address is not None and error.bind == host_and_port(*address):
            return _flag_error(flag, address, error)
    return str(error)


def _flag_error(flag: str, address: Address, error: CannotListen) -> str:
    host, port = address
    if error.unknown_host:
        return f"--bind-address: {host} is not known here; give an address of this machine"
    if error.number == errno.EADDRNOTAVAIL:
        return (
            f"--bind-address: {host} is not an address of this machine; give one that is, or 0.0.0.0 for all"
        )
    if error.number == errno.EACCES:
        return f"{flag}: this user may not listen on port {port}; give one from 1024 up"
    if error.number == errno.EADDRINUSE:
        return f"{flag}: port {port} of {host} is in use; stop what listens there, or give another port"
    return f"{flag}: {error}; give another port"
