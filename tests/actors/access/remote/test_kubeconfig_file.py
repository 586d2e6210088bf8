"""Files in kubeconfig format: how they are read, and errors that name the file and the field."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from rewound.actors.access.remote.kubeconfig_file import (
    KubeconfigError,
    parse_kubeconfig,
    read_kubeconfig,
    read_pem,
)
from tests.cases import cases

FULL = f"""
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: hook
  cluster:
    server: https://hook.example/authenticate?v=1
    certificate-authority: pki/ca.pem
    tls-server-name: other.example
    extensions:
    - name: client.authentication.cluster.io/exec
      extension: {{since: 2020-01-01T00:00:00Z, on: true}}
- name: open
  cluster:
    server: https://x
    insecure-skip-tls-verify: true
    certificate-authority-data: {base64.b64encode(b"CA").decode()}
users:
- name: server
  user: {{client-certificate: a.pem, client-key: /keys/a.key}}
- name: token
  user: {{token: s3cret, tokenFile: tok, username: u, password: pw, exec: {{command: x}}}}
contexts:
- name: here
  context: {{cluster: hook, user: server, namespace: team}}
- name: there
  context: {{cluster: open, user: token}}
- name: nobody
  context: {{cluster: open}}
"""
PATH = Path("/etc/rewound/hook.yaml")


def test_current_context_selects_cluster_and_user() -> None:
    selected = parse_kubeconfig(FULL.encode(), PATH).selected()
    assert selected.context.namespace == "team"
    assert selected.cluster.server == "https://hook.example/authenticate?v=1"
    assert selected.cluster.authority == Path("/etc/rewound/pki/ca.pem")
    assert selected.cluster.tls_server_name == "other.example" and not selected.cluster.insecure
    assert selected.user.certificate == Path("/etc/rewound/a.pem")
    assert selected.user.key == Path("/keys/a.key")


def test_times_and_words_in_extensions_stay_text() -> None:
    extensions = parse_kubeconfig(FULL.encode(), PATH).clusters["hook"].extensions
    assert extensions == {
        "client.authentication.cluster.io/exec": {"since": "2020-01-01T00:00:00Z", "on": True}
    }


def test_context_by_name() -> None:
    kubeconfig = parse_kubeconfig(FULL.encode(), PATH)
    selected = kubeconfig.selected("there")
    assert selected.cluster.insecure and selected.cluster.authority == b"CA"
    assert (selected.user.token, selected.user.token_file) == ("s3cret", Path("/etc/rewound/tok"))
    assert (selected.user.username, selected.user.password) == ("u", "pw")
    assert selected.user.fields["exec"] == {"command": "x"}
    assert kubeconfig.selected("nobody").user.token == ""


def test_credentials_are_not_in_the_representation() -> None:
    assert "s3cret" not in repr(parse_kubeconfig(FULL.encode(), PATH))


@cases(
    ("text", "error"),
    [
        ("", "current-context is missing"),
        ("[1]", "must be a mapping"),
        ("a: [", "neither YAML nor JSON at line"),
        ("kind: Pod", "kind must be Config"),
        ("clusters: 3", "clusters: must be a list"),
        ("clusters: [{cluster: {}}]", "clusters[0].name: is missing"),
        ("clusters: [{name: a, cluster: 3}]", "clusters[a].cluster: must be a mapping"),
        ("clusters: [{name: a, cluster: {server: 3}}]", "clusters[a].cluster.server: must be a string"),
        (
            "clusters: [{name: a, cluster: {insecure-skip-tls-verify: 1}}]",
            "clusters[a].cluster.insecure-skip-tls-verify: must be true or false",
        ),
        (
            "users: [{name: a, user: {client-key-data: '&'}}]",
            "users[a].user.client-key-data: is not base64",
        ),
        ("{}", "current-context is missing"),
        ("current-context: x", "there is no context 'x'"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: y}}]}",
            "contexts[x].context.cluster: there is no cluster 'y'",
        ),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: y, user: z}}], clusters: [{name: y}]}",
            "contexts[x].context.user: there is no user 'z'",
        ),
    ],
)
def test_error_names_file_and_field(text: str, error: str) -> None:
    with pytest.raises(KubeconfigError) as raised:
        parse_kubeconfig(text.encode(), PATH).selected()
    assert str(raised.value).startswith(f"{PATH}: ") and error in str(raised.value)


def test_error_does_not_quote_the_file() -> None:
    with pytest.raises(KubeconfigError) as raised:
        parse_kubeconfig(b"token: 's3cret\nkey: [", PATH)
    assert "s3cret" not in str(raised.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"none\.yaml: cannot be read"):
        read_kubeconfig(tmp_path / "none.yaml")
    with pytest.raises(KubeconfigError, match=r"client-key: cannot read .*none.key"):
        read_pem(PATH, "client-key", tmp_path / "none.key")
    assert read_pem(PATH, "client-key", b"KEY") == b"KEY"
