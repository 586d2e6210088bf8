from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.certificates import CertificateError
from gateway.cli.failures import explain
from gateway.settings import Settings
from journal.errors import WrongDialect

IN_USE = OSError(errno.EADDRINUSE, "Address already in use")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_failure_with_a_text_of_its_own_is_told_as_it_is() -> None:
    wrong = WrongDialect(Path("x"), "cluster", "kubernetes")
    assert explain(wrong, Settings()) == str(wrong)
    assert explain(CertificateError("no"), Settings()) == "no"


def test_a_failure_is_found_inside_a_group() -> None:
    group = BaseExceptionGroup("nursery", [ExceptionGroup("inner", [CertificateError("no")])])
    assert explain(group, Settings()) == "no"


def test_an_unforeseen_failure_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError(), Settings()) is None
    assert explain(BaseExceptionGroup("", [CertificateError("no"), ZeroDivisionError()]), Settings()) is None
    assert explain(OSError(errno.EIO, "Input/output error"), Settings()) is None
    assert explain(PermissionError(errno.EACCES, "Permission denied", "/etc/shadow"), Settings()) is None


def test_the_port_in_use_is_named(taken: int) -> None:
    said = f"port {taken} of 127.0.0.1 is in use; stop what listens there, or give another port"
    assert explain(IN_USE, Settings(secure_port=taken)) == f"--secure-port: {said}"
    assert explain(IN_USE, Settings(secure_port=0, insecure_port=taken)) == f"--insecure-port: {said}"


def test_an_address_of_another_machine_is_named() -> None:
    error = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
    said = explain(error, Settings(bind_address="192.0.2.1"))
    assert said is not None
    assert said.startswith("--bind-address: 192.0.2.1 is no address of this machine")


def test_a_name_that_nobody_knows_is_named() -> None:
    said = explain(socket.gaierror(-2, "Name or service not known"), Settings(bind_address="no.such.host"))
    assert said is not None
    assert said.startswith("--bind-address: no.such.host is not known here")


def test_a_folder_without_rights_is_named() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "rewound-data/journal")
    said = explain(error, Settings())
    assert said is not None
    assert said.startswith(
        "--data-dir: rewound-data/journal: Permission denied; make it readable and writable"
    )
