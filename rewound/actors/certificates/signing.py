"""Signs certificate requests: facts of a request, rules of the built-in signers, their CAs, and the certificate.

The functions import the cryptography library when they run, and take some milliseconds: controllers call them in a
thread.

Each built-in signer signs the requests below; every other signer is left to other programs.

| signer      | subject                                 | usages                          | names              |
|-------------|-----------------------------------------|---------------------------------|--------------------|
| client      | any                                     | client auth, and two more       | any                |
| node client | organization and name of a node         | exactly three, with client auth | none               |
| serving     | organization and name of a node         | exactly three, with server auth | DNS or IP, >= 1    |
| legacy      | any                                     | any                             | any                |

By the rule `node-usages` (`actors.profile`), two of those three are enough: without key encipherment.

Subject, public key and names of a certificate come from the request, usages from the object's spec; every other
requested extension is dropped, and no certificate is a CA.

Each signer has a CA; by default it is the data folder's own. If no secure port has created that, it is created when a
controller first needs it: in a thread, which starts a process, never in the event loop. Files that an operator names
are read again with every use, so that a renewed CA needs no restart.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from rewound.actors.certificates.pki import CertificateError, Certificates
from rewound.actors.kinds.values.pem import blocks_of
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes


class UnfitRequest(Exception):
    """No certificate is issued for this request; the text says why."""


class RequestFacts(msgspec.Struct, frozen=True):
    common_names: tuple[str, ...]
    organizations: tuple[str, ...]
    has_alternative_names: bool  # whether the extension is present, even if empty
    dns_names: int = 0
    addresses: int = 0
    other_names: int = 0  # email addresses, URIs and everything else


def load_request(content: str) -> x509.CertificateSigningRequest:
    """Parse the base64 text of `spec.request`. Raises UnfitRequest if it is not a valid request."""
    from cryptography import x509

    block = next(blocks_of(base64.b64decode(content).decode("latin-1")), None)
    if block is None:
        raise UnfitRequest("it holds no PEM block")
    try:
        request = x509.load_der_x509_csr(block.content)
        signed = request.is_signature_valid
    except Exception as error:
        raise UnfitRequest(f"it cannot be read: {error}") from None
    if not signed:
        raise UnfitRequest("its signature is not by its own key")
    return request


def facts_of(content: str) -> RequestFacts:
    """The facts of the base64 text of `spec.request`. Raises UnfitRequest if it cannot be read."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    request = load_request(content)
    try:
        names = alternative_names(request)
        subject = request.subject
    except Exception as error:
        raise UnfitRequest(f"its subject or its names cannot be read: {error}") from None
    dns = sum(isinstance(name, x509.DNSName) for name in names or ())
    addresses = sum(isinstance(name, x509.IPAddress) for name in names or ())
    return RequestFacts(
        tuple(str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)),
        tuple(str(one.value) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)),
        names is not None,
        dns,
        addresses,
        len(names or ()) - dns - addresses,
    )


def alternative_names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName] | None:
    """The requested subject alternative names; None without the extension."""
    from cryptography import x509

    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return None


NODES: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
_SIGNER_KEY_USAGES: Final = frozenset({"digital signature", "key encipherment"})
CLIENT_USAGES: Final = _SIGNER_KEY_USAGES | {"client auth"}
SERVING_USAGES: Final = _SIGNER_KEY_USAGES | {"server auth"}

# Returns why the signer does not sign such a request; empty if it does.
Rule = Callable[[RequestFacts, Sequence[str]], str]


def signer_rules(names: Names, rules: Rules = DOCUMENTED) -> dict[str, Rule]:
    """The rules of the built-in signers, by signer name."""
    return {
        names.client_signer: client_refusal,
        names.node_client_signer: partial(node_client_refusal, rules=rules),
        names.serving_signer: partial(serving_refusal, rules=rules),
        names.legacy_signer: lambda facts, usages: "",
    }


def client_refusal(facts: RequestFacts, usages: Sequence[str]) -> str:
    if "client auth" not in usages:
        return "its usages must include client auth"
    return _others("its usages may only be", set(usages) - CLIENT_USAGES, CLIENT_USAGES)


def node_client_refusal(facts: RequestFacts, usages: Sequence[str], rules: Rules = DOCUMENTED) -> str:
    if facts.has_alternative_names:
        return "it may not have subject alternative names"
    return _not_of_a_node(facts) or _not_exactly(usages, CLIENT_USAGES, rules)


def serving_refusal(facts: RequestFacts, usages: Sequence[str], rules: Rules = DOCUMENTED) -> str:
    if facts.other_names:
        return "its subject alternative names may only be DNS names and IP addresses"
    if not facts.dns_names and not facts.addresses:
        return "it must have at least one DNS name or IP address"
    return _not_of_a_node(facts) or _not_exactly(usages, SERVING_USAGES, rules)


def _not_of_a_node(facts: RequestFacts) -> str:
    if facts.organizations != (NODES,):
        return f"the organization of its subject must be {NODES} and no other"
    if len(facts.common_names) != 1 or not facts.common_names[0].startswith(NODE_PREFIX):
        return f"the subject must have one common name, which starts with {NODE_PREFIX}"
    return ""


def _not_exactly(usages: Sequence[str], expected: frozenset[str], rules: Rules) -> str:
    optional = {"key encipherment"} if rules.node_usages == "two-or-three" else set()
    if expected - optional <= set(usages) <= expected:
        return ""
    return f"its usages must be {', '.join(sorted(expected))}"


def _others(text: str, others: set[str], allowed: frozenset[str]) -> str:
    return f"{text} {', '.join(sorted(allowed))}" if others else ""


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: bytes  # PEM; the first certificate signs
    key: bytes = field(repr=False)  # PEM


class AuthorityFiles(msgspec.Struct, frozen=True):
    certificate: Path
    key: Path

    def read(self) -> Authority:
        try:
            return Authority(self.certificate.read_bytes(), self.key.read_bytes())
        except OSError as error:
            raise CertificateError(f"cannot read the CA {error.filename}: {error.strerror}") from error


class Authorities:
    def __init__(
        self,
        prepare: Callable[[], Certificates],
        signers: Mapping[str, AuthorityFiles] | None = None,
        server_certificate: Path | None = None,
    ) -> None:
        """`prepare` returns the data folder's certificates; `signers` has the files of signers that use another CA."""
        self._prepare = prepare
        self._signers = dict(signers or {})
        self._server_certificate = server_certificate
        self._own: Certificates | None = None
        self._preparing = trio.Lock()

    async def of_signer(self, signer: str) -> Authority:
        """The CA that signs the certificates of this signer. Raises CertificateError if it cannot be read."""
        files = self._signers.get(signer) or await self._own_files()
        return await trio.to_thread.run_sync(files.read)

    async def server_certificate(self) -> bytes:
        """PEM: the CA of this server's serving certificate, or that certificate itself if an operator provided it."""
        path = self._server_certificate or (await self._own_files()).certificate
        return await trio.to_thread.run_sync(_read, path)

    async def certificates(self) -> Certificates:
        """The certificates of the data folder. Raises CertificateError if they cannot be read or created."""
        async with self._preparing:
            if self._own is None:
                self._own = await trio.to_thread.run_sync(self._prepare)
            return self._own

    async def _own_files(self) -> AuthorityFiles:
        own = await self.certificates()
        return AuthorityFiles(own.authority, own.key("ca"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}") from error


# A client whose clock is behind must not see a new certificate as not yet valid.
BACKDATE: Final = 5 * 60
# Certificates that are valid longer expire earlier by the same amount, so that their validity is as requested. Shorter
# ones keep their end, because five minutes are a large part of their validity.
SHORT: Final = 8 * 3600
_KEY_USAGES: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED_USAGES: Final = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}


def issue(content: str, usages: Sequence[str], authority: Authority, now: float, lifetime: float) -> bytes:
    """The PEM certificate for the base64 text of `spec.request`, valid for `lifetime` seconds but not beyond the CA.

    Its validity starts five minutes ago. Raises UnfitRequest, or CertificateError if the CA cannot sign.
    """
    from cryptography.hazmat.primitives import serialization

    issuer, key = _load(authority)
    authority_ends = issuer.not_valid_after_utc.timestamp()
    if authority_ends <= now:
        raise CertificateError("the CA that signs certificates has expired; replace it")
    begins = now - BACKDATE
    ends = min((now if lifetime < SHORT else begins) + lifetime, authority_ends)
    request = load_request(content)
    try:
        builder = _builder(request, issuer, begins, ends)
        for extension, critical in _extensions(request, issuer, usages):
            builder = builder.add_extension(extension, critical=critical)
        certificate = builder.sign(key, _digest(key))
    except Exception as error:
        raise UnfitRequest(f"no certificate can be made from it: {error}") from None
    return certificate.public_bytes(serialization.Encoding.PEM)


def expiry_of(content: str) -> float | None:
    """When the first certificate in the base64 text of `status.certificate` expires; None if it cannot be read."""
    from cryptography import x509

    block = next(blocks_of(base64.b64decode(content).decode("latin-1")), None)
    if block is None:
        return None
    try:
        return x509.load_der_x509_certificate(block.content).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def _load(authority: Authority) -> tuple[x509.Certificate, CertificateIssuerPrivateKeyTypes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate)
        key = serialization.load_pem_private_key(authority.key, None)
    except Exception:
        raise CertificateError("the CA that signs certificates cannot be read; check its files") from None
    if certificate.public_key() != key.public_key():
        raise CertificateError("the key of the CA that signs certificates is not that of its certificate")
    return certificate, key  # type: ignore[return-value]


def _builder(
    request: x509.CertificateSigningRequest, issuer: x509.Certificate, begins: float, ends: float
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_datetime(begins))
        .not_valid_after(_datetime(ends))
    )


def _extensions(
    request: x509.CertificateSigningRequest, issuer: x509.Certificate, usages: Sequence[str]
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    """The extensions of the certificate, each with whether it is critical."""
    from cryptography import x509

    key_usages = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    extended = dict.fromkeys(_EXTENDED_USAGES[usage] for usage in usages if usage in _EXTENDED_USAGES)
    if key_usages:
        yield x509.KeyUsage(**{name: name in key_usages for name in _KEY_USAGES.values()}), True
    if extended:
        yield x509.ExtendedKeyUsage(map(x509.ObjectIdentifier, extended)), False
    yield x509.BasicConstraints(ca=False, path_length=None), True
    yield _authority_identifier(issuer), False
    kept = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
    names = [name for name in alternative_names(request) or () if isinstance(name, kept)]
    if names:
        yield x509.SubjectAlternativeName(names), not list(request.subject)


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509

    try:
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _digest(key: CertificateIssuerPrivateKeyTypes) -> hashes.SHA256 | None:
    """The signature digest; None for Ed25519 and Ed448, which have their own."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519

    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _datetime(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
