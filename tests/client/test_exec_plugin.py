"""Credential plugins as processes: their input, their output, how long a credential is cached, and their errors."""

from __future__ import annotations

import json
import os
import pty
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from rewound.client.credentials import Credential
from rewound.client.errors import CredentialError
from rewound.client.exec import ExecPlugin, parse_exec
from tests.client import pki
from tests.client.files import CLUSTER_V1, credential, plugin, runs, script

TOKEN = credential(token="t1")


class Clock:
    seconds = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds


def made(folder: Path, command: Path | str = "./plugin", **changed: Any) -> ExecPlugin:
    more = {name: changed.pop(name) for name in ("standard_input", "now", "cluster") if name in changed}
    entry = {"apiVersion": CLUSTER_V1, "command": str(command), "interactiveMode": "Never", **changed}
    config = parse_exec(entry, f"{folder}/config: users[me].user.exec", folder)
    return ExecPlugin(config, more.pop("cluster", {}), **more)


def authorization(source: ExecPlugin) -> str:
    return source.credential().authorization


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as stream, os.fdopen(ours, "wb", buffering=0) as keyboard:
        keyboard.write(b"typed\n")
        yield stream


@pytest.fixture
def no_terminal() -> Iterator[TextIO]:
    with open(os.devnull) as stream:
        yield stream


# Input.


def test_token_of_the_plugin_is_the_bearer_token(tmp_path: Path) -> None:
    plugin(tmp_path, TOKEN)
    assert made(tmp_path).credential() == Credential("Bearer t1")


def test_arguments_and_environment_are_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    answer = credential(token="$1,$2,$A,$KEPT")
    script(tmp_path / "plugin", f"cat <<E\n{answer}\nE")
    source = made(
        tmp_path, args=["--x", "y z"], env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    )
    assert authorization(source) == "Bearer --x,y z,2,kept"


@pytest.mark.parametrize(
    ("version", "variable"),
    [
        ("client.authentication.cluster.io/v1", "CLUSTER_EXEC_INFO"),
        ("client.authentication.cluster.io/v1beta1", "CLUSTER_EXEC_INFO"),
        ("client.authentication.k8s.io/v1", "KUBERNETES_EXEC_INFO"),
    ],
)
def test_plugin_reads_the_expected_version_from_its_input(
    tmp_path: Path, version: str, variable: str
) -> None:
    (tmp_path / "answer").write_text(credential(version, token="t"))
    script(tmp_path / "plugin", f'cd {tmp_path}; echo "${variable}" >input; cat answer')
    # The configured environment cannot replace the input.
    source = made(tmp_path, apiVersion=version, env=[{"name": variable, "value": "{}"}])
    assert authorization(source) == "Bearer t"
    sent = json.loads((tmp_path / "input").read_text())
    assert sent == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_cluster_is_passed_only_when_asked_for(tmp_path: Path) -> None:
    plugin(tmp_path, TOKEN)
    cluster = {"server": "https://x", "config": {"audience": "a"}}
    made(tmp_path, cluster=cluster).credential()
    assert "cluster" not in json.loads((tmp_path / "input").read_text())["spec"]
    made(tmp_path, cluster=cluster, provideClusterInfo=True).credential()
    assert json.loads((tmp_path / "input").read_text())["spec"]["cluster"] == cluster


def test_bare_name_is_found_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path, TOKEN)
    (tmp_path / "plugin").rename(tmp_path / "rewound-test-login")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert authorization(made(Path("/"), "rewound-test-login")) == "Bearer t1"


def test_bare_name_is_not_run_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "rewound-test-login", "touch ran")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CredentialError, match="not found"):
        authorization(made(tmp_path, "rewound-test-login"))
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    with pytest.raises(CredentialError, match="relative folder of PATH"):
        authorization(made(tmp_path, "rewound-test-login"))
    assert not (tmp_path / "ran").exists()


# Interactive modes.

READS = f'read line; echo "$CLUSTER_EXEC_INFO" >"$DIR/input"; echo \'{credential(token="X")}\' | sed "s/X/got-$line/"'


def interactive(folder: Path, mode: str, stream: TextIO) -> ExecPlugin:
    script(folder / "plugin", READS)
    return made(
        folder, interactiveMode=mode, standard_input=stream, env=[{"name": "DIR", "value": str(folder)}]
    )


@pytest.mark.parametrize(
    ("mode", "line", "flag"),
    [("Never", "", False), ("IfAvailable", "typed", True), ("Always", "typed", True)],
)
def test_plugin_on_a_terminal(tmp_path: Path, terminal: TextIO, mode: str, line: str, flag: bool) -> None:
    assert authorization(interactive(tmp_path, mode, terminal)) == f"Bearer got-{line}"
    assert json.loads((tmp_path / "input").read_text())["spec"]["interactive"] is flag


@pytest.mark.parametrize("mode", ["Never", "IfAvailable"])
def test_plugin_without_a_terminal(tmp_path: Path, no_terminal: TextIO, mode: str) -> None:
    assert authorization(interactive(tmp_path, mode, no_terminal)) == "Bearer got-"
    assert json.loads((tmp_path / "input").read_text())["spec"]["interactive"] is False


def test_plugin_that_needs_a_terminal_does_not_run_without_one(tmp_path: Path, no_terminal: TextIO) -> None:
    source = interactive(tmp_path, "Always", no_terminal)
    with pytest.raises(CredentialError, match="exec plugin cannot support interactive mode: standard input"):
        source.credential()
    assert not (tmp_path / "input").exists()


# Output.


def test_certificate_and_key_are_kept_as_printed(tmp_path: Path) -> None:
    one = pki.client("one")
    chain = one.pem + pki.authority().pem
    plugin(tmp_path, credential(clientCertificateData=chain, clientKeyData=one.key))
    found = made(tmp_path).credential()
    assert found.authorization == ""
    assert found.pair is not None and (found.pair.certificate, found.pair.key) == (
        chain.encode(),
        one.key.encode(),
    )


def test_plugin_may_print_yaml(tmp_path: Path) -> None:
    expires = "expirationTimestamp: 2200-01-01T00:00:00Z"
    plugin(tmp_path, f"apiVersion: {CLUSTER_V1}\nkind: ExecCredential\nstatus:\n  token: t1\n  {expires}\n")
    assert authorization(made(tmp_path)) == "Bearer t1"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("", "printed no ExecCredential in JSON"),
        ("hush", "printed no ExecCredential in JSON"),
        ("[]", "printed no ExecCredential in JSON"),
        ("[" * 100_000, "printed no ExecCredential in JSON"),
        (
            credential("client.authentication.cluster.io/v1beta1", token="hush"),
            "but is configured for client",
        ),
        (
            credential("client.authentication.k8s.io/v1", token="hush"),
            "returned the version 'client.authentica",
        ),
        (
            json.dumps({"apiVersion": CLUSTER_V1, "kind": "Secret", "status": {"token": "hush"}}),
            "the kind 'Secr",
        ),
        (json.dumps({"apiVersion": CLUSTER_V1, "kind": "ExecCredential"}), "without status"),
        (credential(), "neither a token nor a certificate"),
        (credential(token="hush", clientCertificateData="hush"), "returned a certificate without a key"),
        (credential(token="hush", clientKeyData="hush"), "returned a key without a certificate"),
        (credential(token=["hush"]), "returned a token that is not a string"),
        (credential(token="hush\nx: y"), "characters that a header cannot have"),
        (credential(token="hush", expirationTimestamp="tomorrow"), "not an RFC 3339 time"),
        (credential(token="hush", expirationTimestamp="2030-01-01"), "not an RFC 3339 time"),
        (credential(token="hush", expirationTimestamp="2030-01-01T00:00:00"), "not an RFC 3339 time"),
    ],
)
def test_wrong_output_is_an_error_that_quotes_none_of_it(tmp_path: Path, output: str, text: str) -> None:
    plugin(tmp_path, output)
    with pytest.raises(CredentialError) as refused:
        made(tmp_path).credential()
    assert text in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/config: users[me].user.exec: the plugin")
    assert "hush" not in str(refused.value)


def test_missing_executable_shows_the_install_hint(tmp_path: Path) -> None:
    for command in ("./nothing", "rewound-no-such-plugin"):
        with pytest.raises(CredentialError) as refused:
            made(tmp_path, command, installHint="Get it with: pip install login").credential()
        assert "exec: executable " in str(refused.value) and " not found" in str(refused.value)
        assert str(refused.value).endswith("\n\nGet it with: pip install login")


def test_failure_of_the_plugin_names_its_exit_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script(tmp_path / "plugin", "echo why >&2; exit 3")
    with pytest.raises(CredentialError, match="failed with exit code 3"):
        made(tmp_path).credential()
    assert capfd.readouterr().err == "why\n"


def test_file_that_is_not_executable_is_reported(tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("x")
    with pytest.raises(CredentialError, match="cannot be run: Permission denied; make it executable"):
        made(tmp_path).credential()


def test_plugin_that_needs_itself_does_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "plugin", f'cd {tmp_path}; echo "$REWOUND_EXEC_PLUGINS" >running; cat output')
    (tmp_path / "output").write_text(TOKEN)
    monkeypatch.setenv("REWOUND_EXEC_PLUGINS", "another")
    assert authorization(made(tmp_path)) == "Bearer t1"
    inside = (tmp_path / "running").read_text()
    assert inside == f"another\n{tmp_path}/config: users[me].user.exec\n"
    monkeypatch.setenv("REWOUND_EXEC_PLUGINS", inside)
    with pytest.raises(
        CredentialError, match=r"plugin needs itself: .*; give that command another one with --kube"
    ):
        made(tmp_path).credential()


# How long a credential is cached.


def test_credential_without_expiry_is_cached(tmp_path: Path) -> None:
    clock = Clock()
    plugin(tmp_path, TOKEN)
    source = made(tmp_path, now=clock)
    first = source.credential()
    clock.seconds += 1e9
    assert source.credential() is first
    assert runs(tmp_path) == 1


def test_credential_is_cached_until_its_expiry(tmp_path: Path) -> None:
    clock = Clock()
    plugin(
        tmp_path,
        credential(token="t1", expirationTimestamp="2023-11-14T23:13:20.5+01:00"),
        credential(token="t2"),
    )
    source = made(tmp_path, now=clock)
    assert authorization(source) == "Bearer t1"
    clock.seconds += 0.25
    assert authorization(source) == "Bearer t1"
    clock.seconds += 0.25
    assert authorization(source) == "Bearer t2"
    assert runs(tmp_path) == 2


def test_rejected_credential_is_dropped(tmp_path: Path) -> None:
    plugin(tmp_path, TOKEN, credential(token="t2"))
    source = made(tmp_path)
    source.rejected(source.credential())
    assert authorization(source) == "Bearer t2"


def test_rejection_of_an_older_credential_keeps_the_newer_one(tmp_path: Path) -> None:
    plugin(tmp_path, TOKEN, credential(token="t2"), credential(token="t3"))
    source = made(tmp_path)
    first = source.credential()
    source.rejected(first)
    assert authorization(source) == "Bearer t2"
    source.rejected(first)
    assert authorization(source) == "Bearer t2"
    assert runs(tmp_path) == 2


def test_failed_run_is_not_cached(tmp_path: Path) -> None:
    plugin(tmp_path, "", TOKEN)
    source = made(tmp_path)
    with pytest.raises(CredentialError):
        source.credential()
    assert authorization(source) == "Bearer t1"


def test_threads_share_one_run(tmp_path: Path) -> None:
    plugin(tmp_path, TOKEN)
    source = made(tmp_path)
    threads = [threading.Thread(target=source.credential) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert runs(tmp_path) == 1
