"""The folders of clusters among files that others left there: each is named, and the others are listed and stopped."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rewound.cli.local.cluster import LocalCluster, Stored
from rewound.cli.local.commands import run
from rewound.client.errors import Failure
from rewound.journal.files.data_file import lock_folder
from rewound.journal.files.private import private_folder, read_regular

BROKEN: dict[str, Callable[[Path], object]] = {
    "is not a JSON object": lambda file: file.write_text("[]"),
    "Expecting value": lambda file: file.write_bytes(b"\0"),
    "Expected `int`": lambda file: file.write_text('{"port": "x"}'),
    "unknown field 'x'": lambda file: file.write_text('{"x": 1}'),
    "maximum recursion depth": lambda file: file.write_text("[" * 100_000),
    "is not a regular file": lambda file: os.mkfifo(file),
    "s not a regular file": lambda file: file.mkdir(),
    " not a regular file": lambda file: file.symlink_to("/dev/zero"),
    "has more than": lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 30),
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "rewound"


def broken(root: Path) -> dict[str, str]:
    """A cluster for each way to be broken -> what its line says."""
    expected = {}
    for index, (why, make) in enumerate(BROKEN.items()):
        folder = root / f"broken-{index}"
        folder.mkdir(parents=True)
        make(folder / "cluster.json")
        expected[folder.name] = why
    return expected


def test_each_broken_cluster_is_a_line_and_the_others_are_listed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = broken(root)
    LocalCluster("sound", root).store(Stored(port=7))
    assert run("list", []) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "https://127.0.0.1:7" in lines["sound"]
    assert {name: why in lines[name] for name, why in expected.items()} == dict.fromkeys(expected, True)
    assert run("list", ["-o", "json"]) == 0
    statuses = {one["name"]: one["status"] for one in json.loads(capsys.readouterr().out)}
    assert statuses == {"sound": "stopped", **dict.fromkeys(expected, "broken")}


def test_port_is_chosen_among_broken_clusters(root: Path) -> None:
    broken(root)
    LocalCluster("new", root).choose_port(0).close()


def test_broken_cluster_can_be_deleted(root: Path) -> None:
    for name in broken(root):
        assert run("down", [name]) == 1
        assert run("down", [name, "--delete"]) == 0
    assert LocalCluster.all(root) == []


def test_process_that_has_not_the_lock_is_never_ended(root: Path) -> None:
    cluster = LocalCluster("mine", root)
    cluster.store(Stored())
    lock = cluster.folder / "server.lock"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        lock.write_text(f"{other.pid}\n")
        assert cluster.pid is None, "no process has the lock"
        assert cluster.stop() is False
        with lock.open("rb") as file:  # such as a program that makes a backup
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(Failure, match=f"names process {other.pid}, which is not the server of mine"):
                cluster.stop()
        assert other.poll() is None
        other.communicate(b"\n", timeout=60)
        assert other.returncode == 0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_folders_are_of_one_user_whatever_the_umask(root: Path, open_umask: None) -> None:
    cluster = LocalCluster("mine", root)
    with cluster.changing():
        cluster.store(Stored())
    private_folder(root / "a" / "b")
    os.close(lock_folder(root / "x" / "journal"))
    folders = (
        root,
        cluster.folder,
        root / ".locks",
        root / "a",
        root / "a" / "b",
        root / "x",
        root / "x" / "journal",
    )
    assert {str(one): mode(one) for one in folders} == {str(one): 0o700 for one in folders}
    files = (
        cluster.folder / "cluster.json",
        root / ".locks" / "mine",
        root / "x" / "journal" / "writer.lock",
    )
    assert {str(one): mode(one) for one in files} == {str(one): 0o600 for one in files}


def test_folders_that_were_open_are_closed(root: Path) -> None:
    cluster = LocalCluster("mine", root)
    cluster.store(Stored())
    root.chmod(0o777)
    cluster.folder.chmod(0o755)
    with cluster.changing():
        cluster.store(Stored())
    assert (mode(root), mode(cluster.folder)) == (0o700, 0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_folder_of_another_user_is_refused(root: Path) -> None:
    root.mkdir()
    os.chown(root, 65534, 65534)
    with pytest.raises(Failure, match="belongs to another user"), LocalCluster("mine", root).changing():
        pass


def test_reading_what_is_no_file_never_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path)
