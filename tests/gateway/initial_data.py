"""The data of a server after its first start, for each dialect: the servers of tests start with a copy.

A server that opens such a copy finds its initial objects. It would also check the journal, which takes a fifth of its
start: the copy is known to be sound, so its first opening checks neither its pages nor its newest events. Every other
journal, and the copy at a restart, is checked as usual.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    "enable_admission_plugins",
    "enable_test_controls",
    "faults",
    "proxy",
    "token_auth_file",
    "token_webhook",
}
_kept = tempfile.TemporaryDirectory(prefix="rewound-initial-")
_copies: set[Path] = set()  # journals that no server has opened yet
_check_structure, _check_tail = environment.check_structure, verify.check_tail


def is_kept(name: str) -> bool:
    return Path(_kept.name, name).exists()


def keep_initial_data(name: str, data: Path) -> None:
    """Keep the data of a dialect, or other data under a name of its own."""
    shutil.copytree(data, Path(_kept.name, name))


def copy_initial_data(settings: Mapping[str, Any], data: Path, name: str = "") -> bool:
    """Fill a data folder, unless these settings lead to other initial objects; returns whether it did."""
    kept = Path(_kept.name, name or settings.get("dialect", "cluster"))
    if not INDEPENDENT.issuperset(settings) or not kept.exists():
        return False
    shutil.copytree(kept, data)
    _copies.add(data / "journal")
    return True


def _check_structure_unless_copied(env: Any, data: Path, names: tuple[str, ...]) -> None:
    if data.parent not in _copies:
        _check_structure(env, data, names)


def _check_tail_unless_copied(reading: ReadTransaction, path: Path, depth: int = verify.TAIL) -> None:
    if path in _copies:
        _copies.discard(path)  # from now on it differs
    else:
        _check_tail(reading, path, depth)


environment.check_structure = _check_structure_unless_copied
verify.check_tail = _check_tail_unless_copied
