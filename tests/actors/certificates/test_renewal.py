"""A start keeps valid certificates and replaces only invalid ones."""

from __future__ import annotations

import fcntl
import io
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.certificates import issue
from rewound.actors.certificates.issuing_process import begin_early
from rewound.actors.certificates.pki import Certificates, one_process_at_a_time, prepare

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("localhost", "127.0.0.1")
ALL = ("ca", "server", "admin", "proxy-ca", "proxy")
CLIENTS = ("server", "admin", "proxy")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("data") / "pki", NAMES, NOW).folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "pki"))


@pytest.fixture
def without_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a child process's time is its start; `original` and other tests generate certificates in one."""

    def make_certificates(request: dict[str, Any]) -> dict[str, Any]:
        output = io.StringIO()
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
        with redirect_stdout(output):
            issue.main()
        response: dict[str, Any] = json.loads(output.getvalue())
        return response

    monkeypatch.setattr("rewound.actors.certificates.pki.make_certificates", make_certificates)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_next_start_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    assert prepare(folder, NAMES, NOW + DAY) == Certificates(folder, ())
    assert contents(folder) == before


def test_next_start_does_not_load_the_certificate_library(folder: Path) -> None:
    program = (
        "import sys, pathlib; from rewound.gateway.connections.config import ServerConfig\n"
        "from rewound.actors.certificates.pki import prepare\n"
        f"c = prepare(pathlib.Path({str(folder)!r}), {NAMES!r}, {NOW})\n"
        "certificates = {'certfile': str(c.certificate('server')), 'keyfile': str(c.key('server'))}\n"
        "assert ServerConfig.from_mapping(certificates).create_ssl_context()\n"
        "sys.exit('cryptography' in sys.modules or bool(c.made))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.usefixtures("without_child")
@pytest.mark.parametrize(
    ("days", "made"),
    [(334, ()), (336, CLIENTS), (400, CLIENTS), (3640, ALL)],
)
def test_certificates_that_expire_within_a_month_are_renewed(
    folder: Path, days: int, made: tuple[str, ...]
) -> None:
    assert prepare(folder, NAMES, NOW + days * DAY).made == made
    assert prepare(folder, NAMES, NOW + days * DAY).made == ()


@pytest.mark.usefixtures("without_child")
def test_missing_name_renews_the_serving_certificate(folder: Path) -> None:
    assert prepare(folder, (*NAMES, "10.0.0.7"), NOW).made == ("server",)
    assert prepare(folder, (*NAMES, "10.0.0.7"), NOW).made == ()
    assert prepare(folder, NAMES, NOW).made == ()


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _overwrite(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: folder.joinpath(name).write_bytes(data) and None


def _swap(one: str, other: str) -> Callable[[Path], None]:
    return lambda folder: folder.joinpath(one).write_bytes(folder.joinpath(other).read_bytes()) and None


@pytest.mark.usefixtures("without_child")
@pytest.mark.parametrize(
    ("damage", "made"),
    [
        (_remove("index.json"), ()),
        (_overwrite("index.json", b"[]"), ()),
        (_overwrite("index.json", b"{not json"), ()),
        (_overwrite("index.json", b'{"ca": {}, "server": 1, "admin": null}'), ()),
        (_remove("server.key"), ("server",)),
        (_overwrite("admin.crt", b"\xff\xfe"), ("admin",)),
        (_overwrite("server.crt", b"-----BEGIN CERTIFICATE-----\n"), ("server",)),
        (_swap("server.key", "admin.key"), ("server",)),
        (_remove("ca.key"), ("ca", "server", "admin")),
        (_swap("ca.crt", "server.crt"), ("ca", "server", "admin")),
        (_remove("proxy-ca.key"), ("proxy-ca", "proxy")),
        (_swap("proxy.crt", "admin.crt"), ("proxy",)),
    ],
)
def test_damaged_certificates_are_replaced_and_the_others_kept(
    folder: Path, damage: Callable[[Path], None], made: tuple[str, ...]
) -> None:
    damage(folder)
    assert prepare(folder, NAMES, NOW).made == made
    assert prepare(folder, NAMES, NOW) == Certificates(folder, ())


@pytest.mark.usefixtures("without_child")
def test_certificate_of_another_ca_is_replaced(folder: Path, tmp_path: Path) -> None:
    other = prepare(tmp_path / "other", NAMES, NOW)
    for suffix in ("crt", "key"):
        shutil.copy(other.folder / f"ca.{suffix}", folder)
    assert prepare(folder, NAMES, NOW).made == ("server", "admin")


def test_process_that_began_early_makes_the_certificates(tmp_path: Path) -> None:
    with begin_early(wanted=True):
        assert prepare(tmp_path / "pki", NAMES, NOW).made == ALL


def test_process_that_started_early_ends_when_it_is_not_needed() -> None:
    program = (
        "import os; from rewound.actors.certificates.issuing_process import begin_early\n"
        "with begin_early(wanted=True): os.waitpid(-1, os.WNOHANG)\n"  # it runs
        "try: os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError: print('none')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "none\n"


def test_two_processes_that_start_at_once_have_one_authority(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one waits for the first, and uses its certificates."""
    folder = tmp_path / "pki"
    folder.mkdir()
    waits, lock = threading.Event(), fcntl.flock
    made: list[Certificates] = []
    second = threading.Thread(target=lambda: made.append(prepare(folder, NAMES, NOW)))
    with one_process_at_a_time(folder):

        def flock(descriptor: int, operation: int) -> None:
            waits.set()
            lock(descriptor, operation)

        monkeypatch.setattr(fcntl, "flock", flock)
        second.start()
        assert waits.wait(60)
        shutil.copytree(original, folder, dirs_exist_ok=True)
    second.join(60)
    assert [one.made for one in made] == [()]
    assert (folder / "ca.crt").read_bytes() == (original / "ca.crt").read_bytes()
