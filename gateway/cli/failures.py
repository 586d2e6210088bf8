"""Explains errors of a start that the operator can fix: one sentence each, with what to do next.

Every other error is a bug of the server, which then prints its traceback.
"""

from __future__ import annotations

import errno
import socket

from actors.access.accounts.keys import AccountKeyError
from actors.certificates.store import CertificateError
from gateway.settings.checks import SettingsError
from gateway.settings.settings import Address, Settings
from journal.errors import JournalError

_KNOWN = (SettingsError, AccountKeyError, CertificateError, JournalError)
_BIND_ERRNOS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)


def explain(error: BaseException, settings: Settings) -> str | None:
    """None for an error that the operator cannot fix."""
    if isinstance(error, BaseExceptionGroup):
        explained = [explain(one, settings) for one in error.exceptions]
        # A group is explained only if every error in it is.
        return explained[0] if None not in explained else None
    if isinstance(error, _KNOWN):
        return str(error)
    if isinstance(error, socket.gaierror):
        return f"--bind-address: {settings.bind_address} is not known here; give an address of this machine"
    if isinstance(error, OSError):
        return _folder_error(error, settings) if error.filename else _listener_error(error, settings)
    return None


def _folder_error(error: OSError, settings: Settings) -> str | None:
    if not str(error.filename).startswith(str(settings.data_dir)):
        return None
    return f"--data-dir: {error.filename}: {error.strerror}; make it readable and writable, or name another folder"


def _listener_error(error: OSError, settings: Settings) -> str | None:
    if error.errno not in _BIND_ERRNOS:
        return None
    listeners = (("--secure-port", settings.secure), ("--insecure-port", settings.insecure))
    for flag, address in listeners:
        if address is not None and (number := _bind_errno(address)):
            return _listen_error(flag, address, number)
    return None


def _bind_errno(address: Address) -> int:
    """The errno of binding this address; tried again because the first error does not name its address."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return error.errno or errno.EADDRINUSE
    return 0


def _listen_error(flag: str, address: Address, number: int) -> str:
    host, port = address
    if number == errno.EADDRNOTAVAIL:
        return f"--bind-address: {host} is no address of this machine; give one that is, or 0.0.0.0 for all"
    if number == errno.EACCES:
        return f"{flag}: this user may not listen on port {port}; give one from 1024 up"
    return f"{flag}: port {port} of {host} is in use; stop what listens there, or give another port"
