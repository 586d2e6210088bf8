"""Which servers our outgoing connections trust: every certificate of a bundle is an anchor, and only alternative
names count.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from rewound.actors.access.authentication.oidc import client_context as provider_context
from rewound.actors.access.remote.calls import NO_CALLS
from rewound.actors.access.remote.kubeconfig_file import User
from rewound.actors.access.remote.target import read_target
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.credentials import WebhookCredentials
from rewound.actors.certificates.trust import InvalidBundle, trust, unverifying, verifying
from rewound.client.target import client_context
from rewound.gateway.aggregation.servers import _make_context as aggregated_context
from rewound.gateway.proxy.locations import Kubelets
from rewound.gateway.settings.settings import ProxySettings
from tests.cases import checking
from tests.issuers import CLIENT, SERVER, issuer

Build = Callable[[bytes, Path], ssl.SSLContext]
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)


def first_certificate(file: Path) -> bytes:
    found = CERTIFICATE.search(file.read_bytes())
    assert found is not None
    return found[0]


def handshake(client: ssl.SSLContext, server_pair: Path, name: str = "localhost") -> str:
    """Why the client does not trust the server; "" if it does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_pair)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server, server_hostname=name)
    server_side = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    return ""


def of_kubeconfig(bundle: bytes, folder: Path) -> ssl.SSLContext:
    cluster = {
        "server": "https://localhost/",
        "certificate-authority-data": base64.b64encode(bundle).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return read_target(file).tls


def of_webhook(bundle: bytes, _: Path) -> ssl.SSLContext:
    clients = WebhookClients(None, WebhookCredentials(), NO_CALLS)  # type: ignore[arg-type]
    return clients._tls(bundle, User(""))


def of_aggregated_server(bundle: bytes, _: Path) -> ssl.SSLContext:
    pair = issuer("proxy").leaf("proxy", usages=(CLIENT,))
    return aggregated_context(bundle, False, (pair, pair))


def of_kubelet(bundle: bytes, folder: Path) -> ssl.SSLContext:
    file = folder / "kubelet-ca.pem"
    file.write_bytes(bundle)
    return Kubelets(ProxySettings(kubelet_certificate_authority=file)).tls


def of_identity_provider(bundle: bytes, folder: Path) -> ssl.SSLContext:
    file = folder / "oidc-ca.pem"
    file.write_bytes(bundle)
    context: ssl.SSLContext = provider_context(file)
    return context


def of_own_client(bundle: bytes, _: Path) -> ssl.SSLContext:
    return client_context(bundle, None, "test")


BUILDERS: dict[str, Build] = {
    "kubeconfig of a webhook": of_kubeconfig,
    "caBundle of a webhook": of_webhook,
    "aggregated server": of_aggregated_server,
    "kubelet": of_kubelet,
    "identity provider": of_identity_provider,
    "own client": of_own_client,
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_every_certificate_of_a_bundle_is_an_anchor(build: Build, tmp_path: Path) -> None:
    root = issuer("root")
    middle = root.intermediate("middle")
    sent_alone = middle.leaf("server", usages=(SERVER,))
    with_chain = middle.leaf("server", usages=(SERVER,), intermediates=(middle,))
    other = issuer("other").file.read_bytes()
    trusted: list[tuple[str, bytes, Path, str]] = [
        ("the leaf itself", first_certificate(sent_alone), sent_alone, "localhost"),
        ("the leaf that sends its chain", first_certificate(with_chain), with_chain, "localhost"),
        ("an intermediate", middle.file.read_bytes(), sent_alone, "localhost"),
        ("an intermediate that is sent", middle.file.read_bytes(), with_chain, "localhost"),
        ("the root", root.file.read_bytes(), with_chain, "localhost"),
        ("an address", middle.file.read_bytes(), sent_alone, "127.0.0.1"),
        ("the second of a bundle", other + middle.file.read_bytes(), sent_alone, "localhost"),
        (
            "text around it",
            b"\xc3\xa9\n" + middle.file.read_bytes() + b"# end\n",
            sent_alone,
            "localhost",
        ),
    ]
    with checking() as case:
        for what, bundle, pair, name in trusted:
            with case(what):
                assert handshake(build(bundle, tmp_path), pair, name) == ""


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_what_a_bundle_does_not_vouch_for_is_refused(build: Build, tmp_path: Path) -> None:
    root = issuer("root")
    middle = root.intermediate("middle")
    leaf = middle.leaf("server", usages=(SERVER,))
    expired = middle.leaf("server", usages=(SERVER,), expired=True)
    nameless = middle.leaf("localhost", usages=(SERVER,), names=())
    elsewhere = middle.leaf("localhost", usages=(SERVER,), names=(x509.DNSName("hook.example"),))
    for_clients = middle.leaf("server", usages=(CLIENT,))
    authority = middle.file.read_bytes()
    missing = "unable to get local issuer certificate"
    mismatch = "Hostname mismatch, certificate is not valid for 'localhost'."
    refused: list[tuple[str, bytes, Path, str, str]] = [
        ("another CA", issuer("other").file.read_bytes(), leaf, "localhost", missing),
        ("another leaf of its CA", first_certificate(expired), leaf, "localhost", missing),
        ("the root without the intermediate", root.file.read_bytes(), leaf, "localhost", missing),
        ("an expired one", authority, expired, "localhost", "certificate has expired"),
        (
            "an expired one in the bundle",
            first_certificate(expired),
            expired,
            "localhost",
            "certificate has expired",
        ),
        ("another name", authority, elsewhere, "localhost", mismatch),
        ("the leaf itself, another name", first_certificate(elsewhere), elsewhere, "localhost", mismatch),
        ("a common name alone", authority, nameless, "localhost", mismatch),
        ("another usage", authority, for_clients, "localhost", "unsuitable certificate purpose"),
        (
            "another address",
            authority,
            leaf,
            "127.0.0.2",
            "IP address mismatch, certificate is not valid for '127.0.0.2'.",
        ),
    ]
    with checking() as case:
        for what, bundle, pair, name, why in refused:
            with case(what):
                assert handshake(build(bundle, tmp_path), pair, name) in (why, _older(why))


def _older(why: str) -> str:
    """The texts of OpenSSL 1.1.1 and 3.0."""
    return why.replace("unsuitable", "unsupported")


def test_identity_provider_is_not_trusted_by_its_own_certificate_without_the_ca_flag(tmp_path: Path) -> None:
    one = issuer("self-signed", ca=False)
    with pytest.raises(Exception, match="CA flag"):
        of_identity_provider(one.file.read_bytes(), tmp_path)


def test_leaf_of_another_is_no_authority() -> None:
    """A certificate without the CA flag is trusted only as itself."""
    false_authority = issuer("false authority", ca=False)
    leaf = false_authority.leaf("server", usages=(SERVER,))
    assert handshake(verifying(false_authority.file.read_bytes()), leaf) == "invalid CA certificate"


def test_bundles_without_certificates_are_refused() -> None:
    key = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    headed = "-----BEGIN CERTIFICATE-----\nA: b\n\nAAAA\n-----END CERTIFICATE-----\n"
    wrong = {
        "": "unable to parse bytes as PEM block",
        "none": "unable to parse bytes as PEM block",
        key: "no valid certificate authority data seen",
        headed: "no valid certificate authority data seen",
        broken: "failed to parse certificate: ",
    }
    for text, why in wrong.items():
        with pytest.raises(InvalidBundle, match=f"^unable to load root certificates: {why}"):
            verifying(text.encode())
    good = issuer("root").file.read_bytes()
    assert len(verifying(broken.encode() + good + key.encode() + good).get_ca_certs()) == 1


def test_system_roots_are_anchors_and_contexts_that_verify_nothing_connect() -> None:
    assert verifying(None).verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert not verifying(None).verify_flags & ssl.VERIFY_X509_STRICT
    assert handshake(unverifying(), issuer("root").leaf("server", usages=(SERVER,), names=())) == ""


def test_trust_of_a_server_context_is_the_same() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust(context, issuer("root").file.read_bytes())
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
