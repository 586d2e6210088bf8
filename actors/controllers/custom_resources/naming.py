"""Which names of a CustomResourceDefinition are accepted: those that no other definition of its group has.

Pure. The texts and reasons of the conditions are part of the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actors.kinds.apiextensions.conditions import (
    ESTABLISHED,
    NAMES_ACCEPTED,
    find_condition,
    with_condition,
)
from actors.messages import Object
from actors.quoting import quoted_start


def accept_names(stored: Object, resources: set[str], kinds: set[str]) -> tuple[Object, str, str]:
    """The accepted names, and reason and message of the conflict, if there is one.

    `resources` and `kinds` are the names that other definitions have. The last conflict is the one reported.
    """
    requested, accepted = stored["spec"]["names"], stored["status"]["acceptedNames"]
    new: dict[str, Any] = dict(accepted)
    reason = message = ""
    for part, used, conflict in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        taken = list(_taken(requested.get(part), accepted.get(part), used))
        if taken:
            reason, message = conflict, _listed(taken)
        else:
            new[part] = requested.get(part)
    new["categories"] = requested.get("categories")
    return _without_missing(new), reason, message


def _taken(
    requested: str | list[str] | None, accepted: str | list[str] | None, used: set[str]
) -> Iterable[str]:
    if isinstance(requested, list):
        own = accepted or ()
        return (name for name in requested if name in used and name not in own)
    return (name for name in (requested,) if name and name != accepted and name in used)


def _listed(taken: list[str]) -> str:
    texts = [f"{quoted_start(name)} is already in use" for name in dict.fromkeys(taken)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _without_missing(names: Object) -> Object:
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {part: names[part] for part in order if names.get(part) or part in ("plural", "kind")}


def naming_conditions(stored: Object, reason: str, message: str, now: str) -> list[Object]:
    """The conditions with NamesAccepted and Established as they are after a decision about the names."""
    conditions = stored["status"]["conditions"]
    if reason:
        conditions = with_condition(conditions, NAMES_ACCEPTED, "False", reason, message, now)
    else:
        conditions = with_condition(
            conditions, NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", now
        )
    established = find_condition(stored, ESTABLISHED)
    if established is not None and established["status"] == "True":
        return conditions
    if not reason:
        text = "the initial names have been accepted"
        return with_condition(conditions, ESTABLISHED, "True", "InitialNamesAccepted", text, now)
    if established is None:
        text = "not all names are accepted"
        return with_condition(conditions, ESTABLISHED, "False", "NotAccepted", text, now)
    return conditions
