"""Checks the structure of a file before LMDB reads its trees: a damaged page would end the process.

Every opening of a file of moderate size does this; a larger one would take too long, and its pages are checked by
`rewound journal verify`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.errors import DamagedStructure
from journal.pages.audit import audit
from journal.pages.layout import PageFile

# Some tens of milliseconds on an idle machine: a start should not take noticeably longer.
CHECKED_AT_OPENING = 8 << 20
ATTEMPTS = 100  # to read the meta page of a transaction before two commits replace it


def check_structure(env: Any, data: Path, names: tuple[str, ...]) -> None:
    """DamagedStructure when a page of an open environment is damaged. The file may be that of a running writer."""
    file = PageFile(data)
    try:
        if file.size > CHECKED_AT_OPENING:
            return
        for _ in range(ATTEMPTS):
            with env.begin() as reading:  # keeps its pages
                meta = next((meta for meta in file.metas() if meta.transaction == reading.id()), None)
                if meta is None:
                    continue
                file.update_size()
                # The meta pages were checked before; a failed write leaves wrong roots in the older one, which does
                # no harm (docs/decisions/0018-journal-identity.md).
                result = audit(file, names, meta)
                found = [one for one in result.damage if one.page not in (0, 1)]
                if found and not result.unused:
                    raise DamagedStructure(data.parent, str(found[0]), len(found))
                return
    finally:
        file.close()
