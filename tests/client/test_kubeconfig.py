"""Which kubeconfig files are read, how they are merged, and errors in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rewound.client.errors import ConfigError, CredentialError
from rewound.client.kubeconfig import Overrides, load_target
from rewound.client.target import Target
from tests.client.files import kubeconfig

URL = "https://127.0.0.1:6443"


def write(path: Path, **document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    return path


def cluster(name: str, server: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": server, **more}}


def context(name: str, cluster: str, user: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "context": {"cluster": cluster, "user": user, **more}}


def target(environment: dict[str, str], **overrides: Any) -> Target:
    return load_target(Overrides(**overrides), environment)


def authorization(found: Target) -> str:
    return found.credentials.credential().authorization


def test_files_of_the_variable_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    one = write(
        tmp_path / "one",
        clusters=[cluster("a", "https://one")],
        contexts=[context("both", "a", "u", namespace="n1")],
    )
    two = write(
        tmp_path / "two",
        **{"current-context": "both"},
        clusters=[cluster("a", "https://two"), cluster("b", "https://b")],
        users=[{"name": "u", "user": {"token": "of-two"}}],
        contexts=[context("both", "b"), context("other", "b", "u")],
    )
    three = write(tmp_path / "three", **{"current-context": "other"})
    environment = {"KUBECONFIG": f"{one}:{tmp_path / 'missing'}::{two}:{one}:{three}"}
    found = target(environment)
    assert (found.server, found.namespace, authorization(found)) == ("https://one", "n1", "Bearer of-two")
    assert found.configured_in == f"context both of {one}, {two}, {three}"
    assert target(environment, context="other").server == "https://b"


def test_relative_paths_of_merged_files_are_those_of_each_file(tmp_path: Path) -> None:
    one = write(tmp_path / "x" / "one", **{"current-context": "c"}, contexts=[context("c", "a", "u")])
    two = write(
        tmp_path / "y" / "two",
        clusters=[cluster("a", URL)],
        users=[{"name": "u", "user": {"tokenFile": "token"}}],
    )
    (tmp_path / "y" / "token").write_text("deep")
    assert authorization(target({"KUBECONFIG": f"{one}:{two}"})) == "Bearer deep"


def test_order_of_default_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = {"HOME": str(tmp_path / "home")}
    with pytest.raises(ConfigError, match=r"there is no kubeconfig file .*rewound-data.*--kubeconfig"):
        target(home)
    for path, server in (
        ("home/.kube/config", "home"),
        ("rewound-data/admin.kubeconfig", "data"),
        ("mine", "mine"),
    ):
        whole = tmp_path / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        kubeconfig(whole, f"https://{server}", {})
    assert target({**home, "KUBECONFIG": "mine"}).server == "https://mine"
    assert target(home).server == "https://data"
    (tmp_path / "rewound-data" / "admin.kubeconfig").unlink()
    assert target(home).server == "https://home"
    assert target(home, kubeconfig=Path("mine")).server == "https://mine"


def test_file_that_cannot_be_looked_at_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"aaaa: cannot be read: File name too long; correct it, or name another"
    ):
        target({"KUBECONFIG": "a" * 300})


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/none: cannot be read: No such file"):
        target({}, kubeconfig=tmp_path / "none")


def test_flags_alone_name_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = target({"HOME": str(tmp_path)}, server="127.0.0.1:6443", token="t", namespace="n")
    assert (found.server, found.namespace, authorization(found)) == (URL, "n", "Bearer t")
    assert "Bearer" not in repr(found)


def test_server_flag_keeps_the_user_of_the_file(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://else", {"token": "t"})
    found = target({}, kubeconfig=path, server=URL)
    assert (found.server, authorization(found), found.namespace) == (URL, "Bearer t", "team")


def test_server_flag_drops_the_name_in_the_certificate_of_the_server_of_the_file(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://else", {}, **{"tls-server-name": "inner"})
    assert target({}, kubeconfig=path).tls_server_name == "inner"
    assert target({}, kubeconfig=path, server=URL).tls_server_name == ""


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n"])
def test_empty_file_has_nothing_in_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty").write_text(text)
    path = kubeconfig(tmp_path / "config", URL, {"token": "t"})
    assert target({"KUBECONFIG": f"{tmp_path / 'empty'}:{path}"}).server == URL
    found = target({"KUBECONFIG": f"{tmp_path / 'empty'}"}, server="https://flag")
    assert (found.server, authorization(found)) == ("https://flag", "")
    with pytest.raises(ConfigError, match="empty: current-context is missing; set it, or name a context"):
        target({"KUBECONFIG": f"{tmp_path / 'empty'}"})


@pytest.mark.parametrize("what", ["clusters", "users", "contexts"])
def test_name_that_occurs_twice_in_a_file_is_an_error(tmp_path: Path, what: str) -> None:
    path = kubeconfig(tmp_path / "config", URL, {"token": "t"})
    document = yaml.safe_load(path.read_text())
    document[what].append(document[what][0])
    path.write_text(yaml.safe_dump(document))
    name = document[what][0]["name"]
    with pytest.raises(ConfigError) as refused:
        target({}, kubeconfig=path)
    hint = "correct it, or name another file with --kubeconfig"
    assert str(refused.value) == f"{path}: {what}[{name}]: occurs twice; {hint}"


@pytest.mark.parametrize(
    ("user", "changed", "text"),
    [
        ({}, {"server": ""}, "clusters[here].cluster.server is missing; give the address"),
        ({}, {"server": "ftp://x"}, "clusters[here].cluster.server: 'ftp://x' is not a URL"),
        (
            {},
            {"server": "https://me:se/cr@et@x:0x"},
            "clusters[here].cluster.server: 'https://x:0x' is not a",
        ),
        (
            {},
            {"insecure-skip-tls-verify": True},
            "certificate-authority and insecure-skip-tls-verify exclude",
        ),
        (
            {},
            {"certificate-authority": "ca.crt"},
            "clusters[here].cluster: certificate-authority and certificate-authority-data exclude each other",
        ),
        (
            {"client-certificate-data": "eA==", "client-key-data": "eA==", "client-key": "a"},
            {},
            "users[me].user: client-key and client-key-data exclude each other; remove one",
        ),
        ({"client-key-data": "eA=="}, {}, "users[me].user: client-key is given without client-certificate"),
        ({"client-certificate-data": "eA=="}, {}, "client-certificate is given without client-key"),
        (
            {"client-certificate": "a", "client-key": "b"},
            {},
            "users[me].user.client-certificate: cannot read",
        ),
        ({"exec": "x"}, {}, "users[me].user.exec is not a mapping"),
        ({"exec": {}}, {}, "users[me].user.exec.apiVersion is missing"),
        ({"exec": {}, "auth-provider": {}}, {}, "exec and auth-provider exclude each other"),
        ({"username": "a", "token": "b"}, {}, "username and token exclude each other"),
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider.name is 'gcp'; the only provider is oidc"),
        ({"as-groups": ["x"]}, {}, "as-groups: groups cannot be impersonated without a user"),
    ],
)
def test_wrong_file_is_reported_with_its_field(
    tmp_path: Path, user: dict[str, Any], changed: dict[str, Any], text: str
) -> None:
    path = kubeconfig(tmp_path / "config", URL, user, **changed)
    with pytest.raises(ConfigError) as refused:
        target({}, kubeconfig=path)
    assert str(refused.value).startswith(f"{path}: ")
    assert text in str(refused.value)


def test_missing_entries_are_named(tmp_path: Path) -> None:
    contexts = [context("a", "none"), context("b", "x", "none")]
    path = write(tmp_path / "config", contexts=contexts, clusters=[cluster("x", URL)])
    with pytest.raises(ConfigError, match="current-context is missing"):
        target({}, kubeconfig=path)
    with pytest.raises(ConfigError, match="there is no context 'z'; it has a, b"):
        target({}, kubeconfig=path, context="z")
    with pytest.raises(ConfigError, match=r"contexts\[a\].context.cluster: there is no cluster 'none'"):
        target({}, kubeconfig=path, context="a")
    with pytest.raises(ConfigError, match=r"contexts\[b\].context.user: there is no user 'none'"):
        target({}, kubeconfig=path, context="b")


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443", "HOME": "/nonexistent"}


def mounted(folder: Path) -> Path:
    """What a kubelet mounts for a service account."""
    folder.mkdir()
    (folder / "token").write_text("first")
    (folder / "ca.crt").write_bytes(b"the CA")
    (folder / "namespace").write_text("monitoring")
    return folder


def test_a_pod_without_a_file_uses_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = mounted(tmp_path / "account")
    found = load_target(Overrides(), POD, folder)
    assert (found.server, found.authority, found.namespace) == (
        "https://10.0.0.1:6443",
        b"the CA",
        "monitoring",
    )
    assert authorization(found) == "Bearer first"
    (folder / "token").write_text("renewed by the kubelet")
    with pytest.raises(CredentialError, match="the service account of this pod"):
        load_target(Overrides(), POD, folder).credentials.credential()
    (folder / "token").write_text("renewed")
    assert authorization(found) == "Bearer renewed"
    six = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": ""}
    assert load_target(Overrides(), six, folder).server == "https://[fd00::1]:443"


def test_a_file_takes_precedence_over_the_service_account_of_a_pod(tmp_path: Path) -> None:
    folder = mounted(tmp_path / "account")
    path = write(
        tmp_path / "config",
        clusters=[cluster("a", "https://a:1")],
        contexts=[context("a", "a")],
        **{"current-context": "a"},
    )
    assert load_target(Overrides(kubeconfig=path), POD, folder).server == "https://a:1"


def test_outside_of_a_pod_a_mounted_token_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = mounted(tmp_path / "account")
    with pytest.raises(ConfigError, match="there is no kubeconfig file"):
        load_target(Overrides(), {"HOME": "/nonexistent"}, folder)
