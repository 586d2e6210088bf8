"""Drops duplicate owner references, with a warning.

Only equal entries are duplicates; two that have the same uid and differ otherwise both stay. Creates and replaces are
checked as they were sent, so that no field manager owns what is dropped. A patch is checked after it was applied,
because only then the list is complete.
"""

from __future__ import annotations

from typing import Final

from actors.messages import Object

_ADVICE: Final = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
    "please fix your requests; duplicate UID(s) observed: {uids}"
)
SENT: Final = f".metadata.ownerReferences contains duplicate entries; {_ADVICE}"
AFTER_ADMISSION: Final = (
    f".metadata.ownerReferences contains duplicate entries after mutating admission happens; {_ADVICE}"
)


def drop_duplicate_owner_references(metadata: Object, warning: str) -> tuple[str, ...]:
    """Returns the warning if there were duplicates."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1 or len({owner["uid"] for owner in owners}) == len(owners):
        return ()
    kept: dict[str, list[Object]] = {}
    left: list[Object] = []
    duplicates: list[str] = []
    for owner in owners:
        same = kept.setdefault(owner["uid"], [])
        if owner in same:
            duplicates.append(owner["uid"])
        else:
            same.append(owner)
            left.append(owner)
    if not duplicates:
        return ()
    metadata["ownerReferences"] = left
    return (warning.format(uids=", ".join(duplicates)),)
