from __future__ import annotations

import errno
from pathlib import Path

from rewound.actors.certificates.pki import CertificateError
from rewound.gateway.connections.listen import CannotListen
from rewound.gateway.settings.settings import Settings
from rewound.journal.errors import WrongDialect
from rewound.server.failures import explain


def test_known_error_is_reported_with_its_text() -> None:
    wrong = WrongDialect(Path("x"), "cluster", "kubernetes")
    assert explain(wrong, Settings()) == str(wrong)
    assert explain(CertificateError("no"), Settings()) == "no"


def test_error_in_an_exception_group_is_explained() -> None:
    group = BaseExceptionGroup("nursery", [ExceptionGroup("inner", [CertificateError("no")])])
    assert explain(group, Settings()) == "no"


def test_unknown_error_is_not_explained() -> None:
    assert explain(ZeroDivisionError(), Settings()) is None
    assert explain(BaseExceptionGroup("", [CertificateError("no"), ZeroDivisionError()]), Settings()) is None
    assert explain(OSError(errno.EIO, "Input/output error"), Settings()) is None
    assert explain(PermissionError(errno.EACCES, "Permission denied", "/etc/shadow"), Settings()) is None


def test_port_in_use_is_named() -> None:
    error = CannotListen("127.0.0.1:7001", errno.EADDRINUSE, "Address already in use")
    text = "port 7001 of 127.0.0.1 is in use; stop what listens there, or give another port"
    assert explain(error, Settings(secure_port=7001)) == f"--secure-port: {text}"
    assert explain(error, Settings(secure_port=0, insecure_port=7001)) == f"--insecure-port: {text}"


def test_address_of_another_machine_is_named() -> None:
    error = CannotListen("192.0.2.1:6443", errno.EADDRNOTAVAIL, "Cannot assign requested address")
    text = explain(error, Settings(bind_address="192.0.2.1"))
    assert text is not None
    assert text.startswith("--bind-address: 192.0.2.1 is not an address of this machine")


def test_unknown_host_name_is_named() -> None:
    error = CannotListen("no.such.host:6443", -2, "Name or service not known", unknown_host=True)
    text = explain(error, Settings(bind_address="no.such.host"))
    assert text is not None
    assert text.startswith("--bind-address: no.such.host is not known here")


def test_folder_without_permission_is_named() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "rewound-data/journal")
    text = explain(error, Settings())
    assert text is not None
    assert text.startswith(
        "--data-dir: rewound-data/journal: Permission denied; make it readable and writable"
    )
