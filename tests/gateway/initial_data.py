"""The data of a server after its first start, for each dialect, with and without certificates.

The servers of tests start with a copy.

A server that opens such a copy finds its initial objects. It would also check the journal and compare every initial
object, which takes a third of its start: the copy is known to be sound and complete, so its first opening checks
neither its pages nor its newest events, and looks for no initial objects. Every other journal, and the copy at a
restart, is checked as usual.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from actors.bootstrap.bootstrap import Bootstrap
from journal import environment, verify
from journal.transaction import ReadTransaction

# Settings that have no influence on the initial objects of a dialect.
INDEPENDENT = {
    "admission",
    "anonymous_auth",
    "audit",
    "authorization",
    "authorization_mode",
    "dialect",
    "disable_admission_plugins",
    "enable_admission_plugins",
    "enable_journal_page",
    "enable_test_controls",
    "faults",
    "max_connections",
    "memory_limit",
    "oidc",
    "proxy",
    "secure_port",
    "shutdown_delay_duration",
    "token_auth_file",
    "token_webhook",
    "watch_history",
}
SECURE_PORT = 2  # of servers with certificates
_kept = tempfile.TemporaryDirectory(prefix="rewound-initial-")
_copies: set[Path] = set()  # journals that no server has opened yet
_complete: set[Path] = set()  # journals of the servers that run on a copy for the first time
_check_structure, _check_tail = environment.check_structure, verify.check_tail
_necessary_writes = Bootstrap._changes


def is_kept(name: str) -> bool:
    return bool(name) and Path(_kept.name, name).exists()


def keep_initial_data(name: str, data: Path) -> None:
    """Keep the data of a dialect, or other data under a name of its own."""
    shutil.copytree(data, Path(_kept.name, name))


def initial_data_for(settings: Mapping[str, Any]) -> str:
    """The name of the data for a server with these settings; "" if they lead to other initial objects."""
    port = settings.get("secure_port", 0)
    if not INDEPENDENT.issuperset(settings) or port not in (0, SECURE_PORT):
        return ""
    dialect: str = settings.get("dialect", "cluster")
    return f"{dialect} with certificates" if port else dialect


def copy_initial_data(name: str, data: Path) -> None:
    shutil.copytree(Path(_kept.name, name), data)
    _copies.add(data / "journal")


def _check_structure_unless_copied(env: Any, data: Path, names: tuple[str, ...]) -> None:
    if data.parent not in _copies:
        _check_structure(env, data, names)


def _check_tail_unless_copied(reading: ReadTransaction, path: Path, depth: int = verify.TAIL) -> None:
    if path in _copies:
        _copies.discard(path)  # from now on it differs
        _complete.add(path)
    else:
        _complete.discard(path)
        _check_tail(reading, path, depth)


def _changes_unless_copied(bootstrap: Bootstrap, objects: Iterable[Any]) -> list[Any]:
    return [] if bootstrap._journal.path in _complete else _necessary_writes(bootstrap, objects)


environment.check_structure = _check_structure_unless_copied
verify.check_tail = _check_tail_unless_copied
Bootstrap._changes = _changes_unless_copied  # type: ignore[method-assign]
