"""The journal: bytes on disk. It is synchronous, uses lmdb and msgpack, and never interprets a body.

Start with `log` (opens a folder and appends) and `view` (reads it); `records` and `keys` define the bytes, and
`replay` is the only module that rebuilds state. The names below are imported on first use, because most users need
only some of them and commands that need none start faster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewound.journal.log import Journal
    from rewound.journal.records import Event, Row
    from rewound.journal.state import Page
    from rewound.journal.view import View

__all__ = ["Event", "Journal", "Page", "Row", "View"]

_MODULES = {"Event": "records", "Journal": "log", "Page": "state", "Row": "records", "View": "view"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
