"""`rewound record` against a running server: a file, a folder that is continued, and what it cannot record."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import orjson
import pytest

from rewound.cli.main import main
from rewound.client.kubeconfig import Overrides, load_target
from rewound.recording.record import recorder
from rewound.testing.fixture.rewound import Rewound
from tests.gateway.journal_commands import run_journal

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests write nothing while they record, so there is nothing to wait for."""
    monkeypatch.setattr(recorder, "HOLD_SECONDS", 0)


def test_file_and_folder(rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewound.request("POST", MAPS, {"metadata": {"name": "web"}, "data": {"color": "blue"}})
    version, flags = (
        rewound.version,
        ["--kubeconfig", str(rewound.kubeconfig), "--duration", "0", "--kinds", "cm"],
    )
    folder, file = tmp_path / "out", tmp_path / "out.journal.gz"
    assert main(["record", *flags, str(folder)]) == 0
    assert f"up to version {version} into {folder}" in capsys.readouterr().err
    rewound.request("DELETE", f"{MAPS}/web")
    for _ in range(10):  # the deletion may arrive after the end of a run, on a busy machine
        assert main(["record", *flags, str(folder)]) == 0
        said = capsys.readouterr().err
        if "recorded 0 events" not in said:
            break
    assert f"recorded 1 events up to version {rewound.version} into {folder}" in said
    assert f"to look at it: rewound open --data-dir {folder}\n" in said
    assert main(["record", *flags, str(file)]) == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out", "out.journal.gz"]
    assert main(["journal", "import", "--data-dir", str(tmp_path / "again"), str(file)]) == 0
    assert main(["journal", "verify", "--data-dir", str(tmp_path / "again")]) == 0
    assert main(["record", *flags, str(file)]) == 1
    assert "already exists" in capsys.readouterr().err


def test_signal_ends_the_recording(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Send SIGTERM when the first lists are in the journal."""
    positions, ended = tmp_path / "out" / "recording.json", threading.Event()

    def stop_when_begun() -> None:
        while not ended.wait(0.01):
            if positions.exists() and '"configmaps"' in positions.read_text():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=stop_when_begun)
    thread.start()
    try:
        flags = ["--kubeconfig", str(rewound.kubeconfig), "--kinds", "cm"]
        assert main(["record", *flags, str(tmp_path / "out")]) == 0
    finally:
        ended.set()
        thread.join(60)
    assert "recorded " in capsys.readouterr().err
    assert run_journal("verify", "--data-dir", str(tmp_path / "out")).code == 0


def test_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("")
    assert main(["record", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.endswith("out is a file; name a folder, or a file that ends in .journal or .journal.gz\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "OUT"),
        (["--duration", "soon", "out"], 2, "not a duration"),
        (["--server", "http://127.0.0.1:1", "--kinds", ",", "out"], 2, "--kinds: ',' has an empty entry"),
        (["--server", "http://127.0.0.1:1", "--kinds", "", "out"], 2, "--kinds: '' has an empty entry"),
        (["--kubeconfig", "missing.yaml", "out"], 1, "missing.yaml"),
        (["--server", "http://127.0.0.1:1", "--token", "t", "out"], 1, "cannot reach http://127.0.0.1:1"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["record", *arguments]) == code
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_unknown_kind_is_refused(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--kubeconfig", str(rewound.kubeconfig), "--duration", "0", "--kinds", "cm,nonsense"]
    assert main(["record", *flags, str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "rewound: --kinds: 'nonsense' is not a kind of this server that can be listed and watched; "
    )
    assert said.endswith("or leave --kinds out\n")
    assert list(tmp_path.iterdir()) == []


def test_cluster_scoped_kind_in_a_namespace(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--kubeconfig", str(rewound.kubeconfig), "--duration", "0", "-n", "shop", "--kinds", "cm,nodes"]
    assert main(["record", *flags, str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said == (
        "rewound: --kinds: objects of 'nodes' are in no namespace; leave --namespace out, or 'nodes'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_user_who_may_read_no_kind(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--kubeconfig", str(rewound.kubeconfig), "--duration", "0", "--kinds", "cm,pods"]
    for out in ("out", "out.journal"):
        assert main(["record", *flags, "--as", "bob", str(tmp_path / out)]) == 1
        said = capsys.readouterr().err
        last = said.splitlines()[-1]
        assert last.startswith("rewound: no kind could be read, so nothing was recorded: 403: ")
        assert 'User "bob" cannot watch resource ' in last and "grant this user list and watch" in last
        assert list(tmp_path.iterdir()) == []


def test_user_who_may_read_some_kinds(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    group = "rbac.authorization." + ("k8s.io" if rewound.dialect == "kubernetes" else "cluster.io")
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    rewound.request(
        "POST", f"/apis/{group}/v1/clusterroles", {"metadata": {"name": "reader"}, "rules": rules}
    )
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
    }
    rewound.request("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    flags = ["--kubeconfig", str(rewound.kubeconfig), "--duration", "0", "--kinds", "cm,pods"]
    assert main(["record", *flags, "--as", "bob", str(tmp_path / "out")]) == 0
    assert "pods is not recorded: pods is forbidden" in caplog.text
    assert "recorded " in capsys.readouterr().err


def test_password_of_the_url_is_not_stored(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor a folder that an earlier release has stored."""
    folder, flags = (
        tmp_path / "out",
        ["--kubeconfig", str(rewound.kubeconfig), "--duration", "0", "--kinds", "cm"],
    )
    file = folder / "recording.json"
    url = load_target(Overrides(kubeconfig=rewound.kubeconfig)).server
    secret = url.replace("://", "://front:hunter2@")
    assert main(["record", *flags, "--server", secret, str(folder)]) == 0
    assert orjson.loads(file.read_bytes())["server"] == url
    assert not any(b"hunter2" in one.read_bytes() for one in folder.rglob("*") if one.is_file())
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), "server": secret, "cluster": "other"}))
    assert main(["record", *flags, str(folder)]) == 1
    said = capsys.readouterr().err
    assert f"has a recording of another cluster ({url})" in said
    assert "hunter2" not in said
