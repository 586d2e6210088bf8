"""Sends to many TLS transports at once: first encrypt for each, then send to each.

`TlsTransport` has these as its methods; watches and HTTP/2 call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from gateway.watch.broadcast import Missed, one_by_one

TlsTransport: TypeAlias = Any  # that of `tls`, which imports this module

# Bytes encrypted at a time: two full records.
SLICE = 32 * 1024
# The same for a peer that is far `behind`: the ciphertext that it does not take stays in memory until it reads, and
# thousands may not read.
SMALL_SLICE = 8 * 1024
# Transports of a broadcast to encrypt for before sending to any of them. Alternating between OpenSSL and the kernel's
# network code at every transport would evict each other's code from the processor's caches: a tenth of the whole cost.
_BROADCAST_BATCH = 64


def broadcast(transports: Sequence[TlsTransport], data: bytes) -> Missed:
    """`transmit` to many, in batches: first encrypt for each, then send to each."""
    if len(data) > SLICE:
        return one_by_one(transports, data)
    missed: Missed = []
    for first in range(0, len(transports), _BROADCAST_BATCH):
        encrypted = _encrypt_each(transports[first : first + _BROADCAST_BATCH], data, missed)
        for transport, cipher in encrypted:
            try:
                sent = transport.socket.send(cipher)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                missed.append((transport, error))
                continue
            if sent != len(cipher):
                transport._unsent, transport._sending = memoryview(cipher)[sent:], True
                missed.append((transport, -len(data)))
    return missed


def send_each(
    parcels: Sequence[tuple[TlsTransport, bytes | memoryview]],
) -> list[tuple[int, int | Exception]]:
    """`transmit` different bytes to each transport, in batches: first encrypt for each, then send to each."""
    missed: list[tuple[int, int | Exception]] = []
    for first in range(0, len(parcels), _BROADCAST_BATCH):
        encrypted: list[tuple[int, TlsTransport, bytes]] = []
        for index, (transport, data) in enumerate(parcels[first : first + _BROADCAST_BATCH], first):
            try:
                if len(data) > SMALL_SLICE or transport._unsent is not None:
                    taken = transport.transmit(data)
                    if taken != len(data):
                        missed.append((index, taken))
                    continue
                transport._tls.write(data)
                cipher = transport._bios.outgoing.read()
            except OSError as error:
                transport._empty_bios()
                missed.append((index, error))
                continue
            if transport._output:
                cipher, transport._output = transport._output + cipher, b""
            encrypted.append((index, transport, cipher))
        for index, transport, cipher in encrypted:
            try:
                sent = transport.socket.send(cipher)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                missed.append((index, error))
                continue
            if sent != len(cipher):
                transport._unsent, transport._sending = memoryview(cipher)[sent:], True
                missed.append((index, -len(parcels[index][1])))
    return missed


def _encrypt_each(
    transports: Sequence[TlsTransport], data: bytes, missed: Missed
) -> list[tuple[TlsTransport, bytes]]:
    """Return the ciphertext for each transport that can take it; those behind are sent to at once, in small slices."""
    encrypted: list[tuple[TlsTransport, bytes]] = []
    for transport in transports:
        if transport._unsent is not None:
            missed.append((transport, 0))
            continue
        try:
            if len(data) > SMALL_SLICE and transport.behind():
                taken = transport.transmit(data)
                if taken != len(data):
                    missed.append((transport, taken))
                continue
            encrypted.append((transport, transport._encrypt(data)))
        except OSError as error:
            missed.append((transport, error))
    return encrypted
