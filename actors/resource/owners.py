"""Owners that an object names twice: the second entry says nothing new and is dropped, with a warning.

Only entries that are equal in everything count as repeated; two that share a uid and differ otherwise are both kept.
A write is looked at as it was sent, so that nobody comes to own what is dropped. A patch is looked at once it has met
its object, because only then the list is whole.
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


def drop_repeated_owners(metadata: Object, warning: str) -> tuple[str, ...]:
    """The warning, if there were any."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1 or len({owner["uid"] for owner in owners}) == len(owners):
        return ()
    kept: dict[str, list[Object]] = {}
    left: list[Object] = []
    repeated: list[str] = []
    for owner in owners:
        same = kept.setdefault(owner["uid"], [])
        if owner in same:
            repeated.append(owner["uid"])
        else:
            same.append(owner)
            left.append(owner)
    if not repeated:
        return ()
    metadata["ownerReferences"] = left
    return (warning.format(uids=", ".join(repeated)),)
