"""Describes the journal for the page: a name that people recognize, and where the journal comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from rewound.journal.files.private import read_regular
from rewound.release import RELEASE
from rewound.rewind.page.refused import RECORDING

# Generic names: that of the parent folder is better.
_COMMON: Final = frozenset(("", "rewound-data", "data", "journal"))
# Temporary names that our own commands choose with `tempfile`.
_TEMPORARY: Final = re.compile(r"rewound-([a-z]+-)?[a-z0-9_]{8}")
_ENDINGS: Final = (".gz", ".journal", ".json")


@dataclass(frozen=True, slots=True)
class About:
    data_dir: Path
    server: str  # its URL; empty if it listens on none
    dialect: str
    kubernetes: str  # the version of Kubernetes that it is
    replayed: Path | None  # the folder or file, in a replay

    def document(self) -> dict[str, Any]:
        source = self.replayed or self.data_dir
        recorded = _recording(source)
        name = _name(source)
        host = (urlsplit(recorded["server"]).hostname or "") if recorded else ""
        document: dict[str, Any] = {
            "title": host or name or urlsplit(self.server).netloc,
            "server": self.server,
            "dialect": self.dialect,
            "kubernetes": self.kubernetes,
            "release": RELEASE,
        }
        if self.replayed is not None:
            document["replay"] = {"of": name or self.replayed.name}
        if recorded:
            document["recorded"] = recorded
        return document


def _name(path: Path) -> str:
    """The name of a folder or file, or of its parent if that says more; empty if neither says anything."""
    path = path.resolve()
    name = path.name
    if not path.is_dir():
        for ending in _ENDINGS:
            name = name.removesuffix(ending)
    found = next((one for one in (name, path.parent.name) if one not in _COMMON), "")
    return "" if _TEMPORARY.fullmatch(found) else found


def _recording(source: Path) -> dict[str, str]:
    """The recorded server, and the first version that is exact; empty if this is not a recording, or cannot be read."""
    folder = source.parent if source.name == "journal" else source
    try:
        found = orjson.loads(read_regular(folder / RECORDING))
        server, exact_from = found["server"], found["exactFrom"]
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return {"server": server, "exactFrom": str(exact_from)} if isinstance(server, str) else {}
