"""Creates and checks certificates: ECDSA P-256 keys, a CA valid for ten years, the others for one.

`issuing_process` runs this as a child process (`python -m rewound.actors.certificates.issue`, JSON in and out), which
keeps the certificate library out of the server's memory. `renew` depends only on its arguments and on randomness. It
keeps valid certificates, because a new CA has to be distributed to every client.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rewound.actors.certificates.names import PROXY_NAME, address_of

_YEAR = 365 * 86400
# A client whose clock is behind must not see a new certificate as not yet valid.
_CLOCK_SKEW = 3600
_ADMIN = "admin"


class Pair(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def renew(
    pems: Mapping[str, Sequence[str]],
    names: Sequence[str],
    administrators: str,
    now: float,
    renew_before: float,
) -> dict[str, Pair]:
    """Return all pairs, those of `pems` that are still valid among them.

    `names` are those of the serving certificate, `administrators` the group of the client.
    """
    authority = _valid_authority(pems.get("ca"), "rewound-ca", now, renew_before)
    server = _issued(pems.get("server"), authority, now + renew_before)
    if server is None or not set(names) <= set(_names(server)):
        server = _make_server(authority, names, now)
    admin = _issued(pems.get("admin"), authority, now + renew_before)
    if admin is None:
        admin = _make_client(authority, _subject(_ADMIN, administrators), now)
    proxy_authority = _valid_authority(pems.get("proxy-ca"), "rewound-proxy-ca", now, renew_before)
    proxy = _issued(pems.get("proxy"), proxy_authority, now + renew_before)
    if proxy is None:
        proxy = _make_client(proxy_authority, _subject(PROXY_NAME), now)
    return {
        "ca": authority,
        "server": server,
        "admin": admin,
        "proxy-ca": proxy_authority,
        "proxy": proxy,
    }


def _load(pem: Sequence[str] | None) -> Pair | None:
    """Parse certificate and key. None if either is missing or unreadable, or if they do not belong together."""
    if pem is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(pem[0].encode())
        key = serialization.load_pem_private_key(pem[1].encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        return None
    return Pair(certificate, key)


def _issued(pem: Sequence[str] | None, authority: Pair, until: float) -> Pair | None:
    pair = _load(pem)
    if pair is None or _expires(pair) < until:
        return None
    try:
        pair.certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return None
    return pair


def _is_authority(pair: Pair) -> bool:
    try:
        return pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _expires(pair: Pair) -> float:
    return pair.certificate.not_valid_after_utc.timestamp()


def _names(pair: Pair) -> list[str]:
    try:
        extension = pair.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in extension.value]


def _valid_authority(pem: Sequence[str] | None, name: str, now: float, renew_before: float) -> Pair:
    authority = _load(pem)
    if authority is None or _expires(authority) < now + renew_before or not _is_authority(authority):
        return _make_authority(name, now)
    return authority


def _make_authority(name: str, now: float) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The time makes the name of each CA unique, so that one bundle can hold several.
    subject = _subject(f"{name}@{int(now)}")
    builder = _builder(subject, subject, key, now, 10 * _YEAR)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def _make_server(authority: Pair, names: Sequence[str], now: float) -> Pair:
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return _sign(authority, _subject("rewound"), [usage, alternatives], now)


def _make_client(authority: Pair, subject: x509.Name, now: float) -> Pair:
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return _sign(authority, subject, [usage], now)


def _sign(authority: Pair, subject: x509.Name, extensions: Sequence[x509.ExtensionType], now: float) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    lifetime = min(_YEAR, _expires(authority) - now)
    builder = _builder(subject, authority.certificate.subject, key, now, lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    for extension in (identifier, *extensions):
        builder = builder.add_extension(extension, critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, lifetime: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_datetime(now - _CLOCK_SKEW))
        .not_valid_after(_datetime(now + lifetime))
    )


def _datetime(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)


def _subject(name: str, *groups: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    address = address_of(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(pair: Pair) -> tuple[str, str]:
    key = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pair.certificate.public_bytes(serialization.Encoding.PEM).decode(), key.decode()


def main() -> None:
    raw = sys.stdin.read()
    if not raw:
        return  # no certificate is needed after all
    request: dict[str, Any] = json.loads(raw)
    pairs = renew(**request)
    pems = {name: _pem(pair) for name, pair in pairs.items()}
    facts = {name: {"expires": _expires(pair), "names": _names(pair)} for name, pair in pairs.items()}
    json.dump({"pems": pems, "facts": facts}, sys.stdout)


if __name__ == "__main__":
    main()
