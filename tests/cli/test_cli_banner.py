from __future__ import annotations

from pathlib import Path

from rewound.cli.serve import banner
from rewound.gateway.settings.settings import Addresses, ControllerSettings, Settings, StandbySettings
from tests.actors.certificates.shared_folder import own_certificates

SECURE = Addresses(("127.0.0.1", 6443), None)


def test_banner_shows_addresses_and_next_commands() -> None:
    text = banner(Settings(), SECURE)
    assert "https://127.0.0.1:6443\n" in text
    assert "rewound-data (dialect cluster, Kubernetes 1.25)" in text
    assert (
        "curl --cacert rewound-data/pki/ca.crt --cert rewound-data/pki/admin.crt --key rewound-data/pki/admin.key "
        "https://127.0.0.1:6443/api/v1/namespaces\n"
    ) in text
    assert "kubectl --kubeconfig" not in text
    assert "http://" not in text


def test_banner_leads_to_the_page() -> None:
    text = banner(Settings(data_dir=Path("my data")), SECURE)
    assert "  page     https://127.0.0.1:6443/debug/journal/ (" in text
    assert "  rewound open --kubeconfig 'my data/admin.kubeconfig'\n" in text
    assert "  page     http://127.0.0.1:8080/debug/journal/ (" in banner(
        Settings(secure_port=0, insecure_port=8080), PLAIN
    )
    without = banner(Settings(enable_journal_page=False), SECURE)
    assert "/debug/journal/" not in without and "rewound open" not in without


def test_banner_says_how_to_sign_in_over_http3() -> None:
    text = banner(Settings(), Addresses(("127.0.0.1", 6443), None, quic=("0.0.0.0", 6443)))
    assert "http3    https://127.0.0.1:6443 (over QUIC; callers sign in with tokens only)\n" in text


def test_banner_of_kubernetes_dialect_shows_kubectl() -> None:
    text = banner(Settings(dialect="kubernetes"), SECURE)
    assert "kubectl --kubeconfig rewound-data/admin.kubeconfig get namespaces\n" in text


def test_banner_counts_simulated_nodes() -> None:
    assert "nodes    3 simulated\n" in banner(Settings(controllers=ControllerSettings(nodes=3)), SECURE)
    assert "simulated" not in banner(Settings(), SECURE)


def test_paths_are_quoted_for_the_shell() -> None:
    text = banner(Settings(data_dir=Path("my data")), SECURE)
    assert "--cacert 'my data/pki/ca.crt'" in text


def test_every_address_of_the_machine_is_listed() -> None:
    text = banner(
        Settings(bind_address="0.0.0.0"), Addresses(("0.0.0.0", 6443), None, ("192.0.2.1", "192.0.2.9"))
    )
    assert "secure   https://127.0.0.1:6443\n" in text
    assert "https://192.0.2.1:6443 (from other machines)\n" in text
    assert "https://192.0.2.9:6443 (from other machines)\n" in text
    text = banner(Settings(bind_address="::"), Addresses(("::", 6443), None, ("2001:db8::1",)))
    assert "secure   https://[::1]:6443\n" in text
    assert "https://[2001:db8::1]:6443 (from other machines)\n" in text


def test_machine_without_addresses_has_loopback_only() -> None:
    text = banner(Settings(bind_address="0.0.0.0"), Addresses(("0.0.0.0", 6443), None, ("127.0.0.1",)))
    assert "other machines" not in text


def test_given_certificate_is_its_own_ca_file() -> None:
    own = own_certificates("cluster")
    file = own.certificate("server")
    text = banner(Settings(tls_cert_file=file, tls_private_key_file=own.key("server")), SECURE)
    assert f"--cacert {file} " in text


PLAIN = Addresses(None, ("127.0.0.1", 8080))


def test_plain_http_alone_shows_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("")
    settings = Settings(secure_port=0, insecure_port=8080, token_auth_file=tokens)
    text = banner(settings, PLAIN)
    assert "http://127.0.0.1:8080 (this machine only; callers still sign in)\n" in text
    token = f"<token of {tokens}>"
    assert f'curl -H "Authorization: Bearer {token}" http://127.0.0.1:8080/api/v1/namespaces\n' in text


def test_plain_port_where_only_accounts_sign_in_says_so() -> None:
    settings = Settings(secure_port=0, insecure_port=8080)
    text = banner(settings, PLAIN)
    assert "(this machine only; with service account tokens; for others give --token-auth-file)" in text
    assert "Bearer" not in text and "curl http://127.0.0.1:8080/version\n" in text


def test_cluster_dialect_mentions_the_other_one() -> None:
    assert "with --dialect kubernetes" in banner(Settings(), SECURE)
    assert "--dialect" not in banner(Settings(dialect="kubernetes"), SECURE)


def test_authorization_modes_are_shown() -> None:
    assert "Node,RBAC, anonymous on" in banner(Settings(authorization_mode="Node,RBAC"), SECURE)
    allowing = Settings(authorization_mode="AlwaysAllow", anonymous_auth=False)
    assert "AlwaysAllow, anonymous off" in banner(allowing, SECURE)


def test_banner_shows_the_profile_and_rules_set_by_hand() -> None:
    assert "  profile  documents\n" in banner(Settings(), SECURE)
    assert "  profile  v1.25\n" in banner(Settings(dialect="kubernetes"), SECURE)
    assert "  profile  documents\n" in banner(Settings(dialect="kubernetes", profile="documents"), SECURE)
    changed = Settings(rule="service-name=optional,health=kubernetes")
    assert "  profile  documents, but service-name=optional, health=kubernetes\n" in banner(changed, SECURE)


def test_banner_of_a_standby_names_its_leader(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    standby = StandbySettings(follow="https://user:secret@leader:6443", follow_token_file=token)
    text = banner(Settings(standby=standby), SECURE)
    assert "standby  of https://leader:6443, where writes go; this server refuses them\n" in text
