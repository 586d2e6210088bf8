"""IP addresses and networks of expressions: `ip('::1')`, `cidr('10.0.0.0/8')`, with the texts of Go's netip.

An address has no zone and is no IPv4 address in IPv6. A network keeps the bits of its address that its mask does not
cover: `cidr('10.0.0.1/8')` differs from `cidr('10.0.0.0/8')`, which is `masked()`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.cel.values import EvaluationError, no_such_overload
from rewound.actors.golang.quoting import quoted
from rewound.actors.runtime.budget import Budget

_KIND: Final = re.compile("[.:%]")
_HEX: Final = re.compile("[0-9a-fA-F]*")
_MAPPED: Final = 0xFFFF  # the upper bits of an IPv4 address in IPv6


@dataclass(frozen=True, slots=True)
class IP:
    number: int
    bits: int  # 32 or 128

    type_name = "net.IP"

    def equals(self, other: Any, _: Budget) -> bool:
        if other.__class__ is not IP:
            raise other if isinstance(other, EvaluationError) else no_such_overload()
        return self == other

    def __str__(self) -> str:
        if self.bits == 32:
            return str(ipaddress.IPv4Address(self.number))
        return ipaddress.IPv6Address(self.number).compressed

    def size(self) -> int:
        return self.bits // 8

    def begins_with(self, prefix: int, length: int) -> bool:
        return self.number >> (self.bits - length) == prefix >> (self.bits - length)

    def is_loopback(self) -> bool:
        return self.number >> 24 == 127 if self.bits == 32 else self.number == 1

    def is_link_local_multicast(self) -> bool:
        if self.bits == 32:
            return self.number >> 8 == 0xE00000
        return (self.number >> 112) & 0xFF0F == 0xFF02

    def is_link_local_unicast(self) -> bool:
        return self.number >> 16 == 0xA9FE if self.bits == 32 else self.number >> 118 == 0xFE80 >> 6

    def is_global_unicast(self) -> bool:
        if self.bits == 32:
            is_multicast = self.number >> 28 == 0xE or self.number == 0xFFFFFFFF
        else:
            is_multicast = self.number >> 120 == 0xFF
        return bool(self.number) and not (is_multicast or self.is_loopback() or self.is_link_local_unicast())


@dataclass(frozen=True, slots=True)
class CIDR:
    address: IP
    length: int

    type_name = "net.CIDR"

    def equals(self, other: Any, _: Budget) -> bool:
        if other.__class__ is not CIDR:
            raise other if isinstance(other, EvaluationError) else no_such_overload()
        return self == other

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    def size(self) -> int:
        return -(-self.length // 8)

    def masked(self) -> CIDR:
        rest = self.address.bits - self.length
        return CIDR(IP(self.address.number >> rest << rest, self.address.bits), self.length)

    def contains(self, address: IP) -> bool:
        return address.bits == self.address.bits and address.begins_with(self.address.number, self.length)

    def contains_network(self, other: CIDR) -> bool:
        return self.length <= other.length and self.contains(other.address)

    def contains_unmasked(self, other: CIDR) -> bool:
        """Compare as Kubernetes does before 1.32: the other network must begin where this one does."""
        return self.length <= other.length and self.masked().address == other.address


class _Wrong(Exception):
    pass


def parse_ip(text: str) -> IP:
    try:
        address, zone = _parse(text)
    except _Wrong as wrong:
        raise EvaluationError(
            f"IP Address {quoted(text)} parse error during conversion from string: {wrong}"
        ) from None
    if zone:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    return _not_mapped(address, text)


def _not_mapped(address: IP, text: str) -> IP:
    if address.bits == 128 and address.number >> 32 == _MAPPED:
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


def is_canonical(text: str) -> bool:
    return str(parse_ip(text)) == text


_CONVERSION: Final = "network address parse error during conversion from string: "


def parse_cidr(text: str) -> CIDR:
    try:
        return _parse_cidr(text)
    except EvaluationError as error:
        raise EvaluationError(_CONVERSION + error.message) from None


def _parse_cidr(text: str) -> CIDR:
    try:
        address, length = _parse_prefix(text)
    except _Wrong as wrong:
        raise EvaluationError(f"{_CONVERSION}netip.ParsePrefix({quoted(text)}): {wrong}") from None
    return CIDR(_not_mapped(address, text), length)


def _parse_prefix(text: str) -> tuple[IP, int]:
    before, slash, bits = text.rpartition("/")
    if not slash:
        raise _Wrong("no '/'")
    address, zone = _parse(before)
    if zone:
        raise _Wrong("IPv6 zones cannot be present in a prefix")
    if not (bits.isascii() and bits.isdigit()) or (len(bits) > 1 and bits[0] == "0") or len(bits) > 18:
        raise _Wrong(f"bad bits after slash: {quoted(bits)}")
    if int(bits) > address.bits:
        raise _Wrong("prefix length out of range")
    return address, int(bits)


def is_cidr(text: str) -> bool:
    try:
        _parse_cidr(text)
    except EvaluationError:
        return False
    return True


def contains_text(network: CIDR, text: str) -> bool:
    """Whether the network contains an address. Kubernetes hides what is wrong with the text of the address."""
    try:
        return network.contains(parse_ip(text))
    except EvaluationError:
        raise no_such_overload() from None


def _parse(text: str) -> tuple[IP, str]:
    """Return the address and its zone, as Go's netip.ParseAddr does."""
    kind = _KIND.search(text)
    if kind is None:
        raise _wrong(text, "unable to parse IP")
    if kind[0] == ".":
        return IP(_parse_v4(text, text), 32), ""
    if kind[0] == "%":
        raise _wrong(text, "missing IPv6 address")
    return _parse_v6(text)


def _wrong(text: str, message: str, at: str = "") -> _Wrong:
    return _Wrong(f"ParseAddr({quoted(text)}): {message}" + (f" (at {quoted(at)})" if at else ""))


def _parse_v4(whole: str, text: str) -> int:
    fields: list[int] = []
    value, digits = 0, 0
    for index, letter in enumerate(text):
        if "0" <= letter <= "9":
            if digits == 1 and value == 0:
                raise _wrong(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(letter), digits + 1
            if value > 255:
                raise _wrong(whole, "IPv4 field has value >255")
        elif letter == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                raise _wrong(whole, "IPv4 field must have at least one digit", text[index:])
            if len(fields) == 3:
                raise _wrong(whole, "IPv4 address too long")
            fields.append(value)
            value, digits = 0, 0
        else:
            raise _wrong(whole, "unexpected character", text[index:])
    if len(fields) < 3:
        raise _wrong(whole, "IPv4 address too short")
    return int.from_bytes((*fields, value))


def _parse_v6(whole: str) -> tuple[IP, str]:
    rest, percent, zone = whole.partition("%")
    if percent and not zone:
        raise _wrong(whole, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return IP(0, 128), zone
    while len(groups) < 8:
        found = _HEX.match(rest)
        digits = found[0] if found is not None else ""
        if len(digits) > 4:
            raise _wrong(whole, "each group must have 4 or less digits", rest)
        if not digits:
            raise _wrong(whole, "each colon-separated field must have at least one digit", rest)
        if rest[len(digits) : len(digits) + 1] == ".":
            if ellipsis < 0 and len(groups) != 6:
                text = "embedded IPv4 address must replace the final 2 fields of the address"
                raise _wrong(whole, text, rest)
            if len(groups) > 6:
                text = "too many hex fields to fit an embedded IPv4 at the end of the address"
                raise _wrong(whole, text, rest)
            groups += divmod(_parse_v4(whole, rest), 1 << 16)
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            raise _wrong(whole, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _wrong(whole, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _wrong(whole, "multiple :: in address", rest)
            ellipsis, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise _wrong(whole, "trailing garbage after address", rest)
    if len(groups) == 8 and ellipsis >= 0:
        raise _wrong(whole, "the :: must expand to at least one field of zeros")
    if len(groups) < 8:
        if ellipsis < 0:
            raise _wrong(whole, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    return IP(int.from_bytes(b"".join(group.to_bytes(2) for group in groups)), 128), zone
