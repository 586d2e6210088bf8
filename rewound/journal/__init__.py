"""Rewound's journal: bytes on disk. Synchronous; uses lmdb and msgpack, and never interprets a body.

Begin with `log` (opens a folder and appends) and `view` (reads of it); `records` and `keys` have the bytes, and
`replay` is the only module that rebuilds state. The names below are imported on first use: most users need a part of
it, and commands that need none start faster.
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
