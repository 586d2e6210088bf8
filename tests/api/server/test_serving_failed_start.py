"""A start that fails leaves the file system as it was."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import pytest
import trio

from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.runtime.clock import WallClock
from rewound.cli.main import main
from rewound.journal.errors import WrongDialect
from rewound.journal.log import Journal
from rewound.server.data_folder import CreatedPaths
from rewound.server.extensions import NO_EXTENSIONS
from rewound.server.open_store import open_store
from rewound.server.run import run
from tests.gateway.api import config_map, served, settings
from tests.gateway.processes import process, refused
from tests.ports import reserve_port


class Starts:
    """Starts that fail, in this process: a process for each would take minutes in all."""

    def __init__(self, folder: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._given = ["--secure-port", "0", "--insecure-port", str(reserve_port()), "--data-dir", str(data)]
        self._broken = folder / "broken"
        self._broken.write_text("neither tokens nor a certificate\n")

    def error(self, *flags: str) -> str:
        assert main(["serve", *self._given, *flags]) in (1, 2)
        return self._capsys.readouterr().err

    def all_fail(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            assert "is in use" in self.error("--insecure-port", port)
            assert "is in use" in self.error("--secure-port", port)
        with socket.socket(type=socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            quic = ("--transport", "asgi", "--quic-bind", f"127.0.0.1:{taken.getsockname()[1]}")
            assert "Address already in use" in self.error("--secure-port", str(reserve_port()), *quic)
        assert "line 1" in self.error("--token-auth-file", str(self._broken))
        certificate = ("--tls-cert-file", str(self._broken), "--tls-private-key-file", str(self._broken))
        assert "both must be PEM files" in self.error("--secure-port", str(reserve_port()), *certificate)
        assert "is not a flag" in self.error("--no-such-flag")
        gc.collect()  # a warning about an unclosed socket belongs to this test, not to a later one


def test_new_folder_is_removed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Starts(tmp_path, tmp_path / "outer" / "inner", capsys).all_fail()
    assert {path.name for path in tmp_path.iterdir()} == {"broken"}


def test_empty_folder_stays_and_stays_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    Starts(tmp_path, data, capsys).all_fail()
    assert data.is_dir() and list(data.iterdir()) == []


async def test_folder_with_data_keeps_it(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await api.create("configmaps", config_map("kept"))
    (tmp_path / "data" / "notes").write_text("mine")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, error = await refused(tmp_path, "--insecure-port", str(taken.getsockname()[1]))
    assert (code, "is in use" in error) == (1, True), error
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"journal", "notes"}
    async with served(tmp_path) as api:
        await api.get("configmaps", "kept")


def test_busy_port_is_reported_before_the_folder_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    (folder / "journal").mkdir(parents=True)
    (folder / "journal" / "data.mdb").write_text("no journal")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--data-dir", str(folder), "--secure-port", str(port)]) == 1
    text = f"--secure-port: port {port} of 127.0.0.1 is in use; stop what listens there, or give another port"
    assert capsys.readouterr().err == f"rewound: {text}\n"
    assert list(folder.iterdir()) == [folder / "journal"]


async def test_folder_of_a_running_server_is_left_to_it(tmp_path: Path) -> None:
    async with process(tmp_path) as server:
        code, error = await refused(tmp_path)
        assert (code, "already being written" in error) == (1, True), error
        assert (await server.client.get("/api/v1/namespaces")).status_code == 200
        assert (tmp_path / "data" / "journal" / "data.mdb").exists()


def test_symbolic_link_to_nothing_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    starts = Starts(tmp_path, data, capsys)
    links = [data / "admin.kubeconfig", data / "pki", data / "journal"]
    links[0].symlink_to(tmp_path / "unmounted")
    starts.all_fail()
    links[1].symlink_to(tmp_path / "unmounted")
    assert "File exists" in starts.error("--secure-port", str(reserve_port()))
    links[2].symlink_to(tmp_path / "unmounted")
    assert "File exists" in starts.error()
    assert set(data.iterdir()) == set(links)
    assert all(link.is_symlink() for link in links)


async def test_journal_that_another_process_created_meanwhile_stays(tmp_path: Path) -> None:
    given = settings(tmp_path, dialect="kubernetes")
    created = CreatedPaths(given)
    Journal.open(given.journal, dialect="cluster").close()
    with pytest.raises(WrongDialect):
        async with open_store(given, WallClock(), created, NO_EXTENSIONS):
            pass
    assert (given.journal / "data.mdb").exists()


async def test_folder_stays_once_clients_could_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server listens before its initial objects exist: a client may have the response to a write already."""

    async def fail(*_: object) -> None:
        raise RuntimeError("no initial objects")

    monkeypatch.setattr(Bootstrap, "create_objects", fail)
    given = settings(tmp_path)
    with pytest.raises(ExceptionGroup):
        await run(given, lambda _: None, trio.Event())
    assert (given.journal / "data.mdb").exists()
