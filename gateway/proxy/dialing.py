"""Connects to a target: resolves its host, refuses addresses that are not allowed, and makes the TLS handshake.

The address that is checked is the one that is connected to: a name that resolves to another address a moment later
gains nothing. Error texts are those that clients of Kubernetes know.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from typing import Any

import trio

from actors.errors import BadRequest
from gateway.proxy.target import Target

NOT_ALLOWED = "address not allowed"
HANDSHAKE_SECONDS = 10.0

_Address = tuple[int, Any]  # family, and the address as that family has it


class Unreachable(Exception):
    """No connection to the target; the text says why."""


def is_allowed(text: str) -> bool:
    """Whether it is a global unicast address, as Go defines it: private ones are, loopback and link-local are not."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


async def connect(target: Target) -> trio.abc.Stream:
    """BadRequest if the address is not allowed, Unreachable."""
    try:
        with trio.fail_after(target.connect_seconds):
            stream = await _connect(target, await _resolve(target))
    except trio.TooSlowError:
        raise Unreachable(f"dial tcp {target.authority}: i/o timeout") from None
    if target.tls is None:
        return stream
    try:
        return await _secure(target, target.tls, stream)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


async def _resolve(target: Target) -> list[_Address]:
    try:
        found = await trio.socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        raise Unreachable(f"dial tcp: lookup {target.host}: no such host") from None
    if not target.local_allowed and not all(is_allowed(str(sockaddr[0])) for *_, sockaddr in found):
        raise BadRequest(NOT_ALLOWED)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


async def _connect(target: Target, addresses: list[_Address]) -> trio.SocketStream:
    failure: OSError | None = None
    for family, sockaddr in addresses:
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            await sock.connect(sockaddr)
        except OSError as error:
            failure = failure or error
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return trio.SocketStream(sock)
    why = os.strerror(failure.errno).lower() if failure is not None and failure.errno else "no addresses"
    raise Unreachable(f"dial tcp {target.authority}: connect: {why}")


async def _secure(target: Target, context: ssl.SSLContext, stream: trio.SocketStream) -> trio.abc.Stream:
    secured = trio.SSLStream(
        stream, context, server_hostname=target.server_name or target.host, https_compatible=True
    )
    try:
        with trio.fail_after(min(HANDSHAKE_SECONDS, target.connect_seconds)):
            await secured.do_handshake()
    except trio.TooSlowError:
        raise Unreachable("net/http: TLS handshake timeout") from None
    except trio.BrokenResourceError as error:
        raise Unreachable(_tls_failure(error.__cause__)) from None
    return secured


def _tls_failure(error: BaseException | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"x509: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    if isinstance(error, ssl.SSLError):
        return f"tls: {(error.reason or 'handshake failure').lower().replace('_', ' ')}"
    return "EOF"
