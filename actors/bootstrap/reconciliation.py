"""What a start changes in a stored default role or binding, as v1.25 reconciles them.

It adds missing rules, selectors, subjects, labels and annotations, and leaves everything that was added. An object with
the annotation autoupdate "false" stays as it is. The roleRef of a binding cannot change: another one needs a new
binding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from actors.access.authorization.rbac.roles import autoupdate_key, uncovered
from actors.go_json import dumps
from actors.messages import Object
from actors.names import Names

_AGGREGATION: Final = b'"aggregationRule":'


@dataclass(frozen=True, slots=True)
class Reconciled:
    object: Object
    recreate: bool = False


def is_as_wanted(body: bytes, wanted: Object) -> bool:
    """Whether the stored bytes of an object contain everything wanted, so that it need not be parsed.

    They do unless somebody changed it: a start then compares bytes only. Quotation marks inside of JSON strings are
    escaped, so the bytes of a member are found nowhere but in a member.
    """
    aggregated = "aggregationRule" in wanted
    if not aggregated and _AGGREGATION in body:
        return False
    members: list[tuple[str, object]] = [
        (name, value)
        for name, value in wanted.items()
        if value and name != "metadata" and not (aggregated and name == "rules")
    ]
    for field in ("labels", "annotations"):
        members.extend(wanted["metadata"][field].items())
    return all(dumps({name: value})[1:-1] in body for name, value in members)


def reconcile(names: Names, stored: Object, wanted: Object) -> Reconciled | None:
    """The changed object; None if nothing is missing. Changes neither of both."""
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(autoupdate_key(names)) == "false":
        return None
    new = {**stored, "metadata": _merged_metadata(stored["metadata"], wanted["metadata"])}
    if "roleRef" in wanted:
        if stored["roleRef"] != wanted["roleRef"]:
            return Reconciled(wanted, recreate=True)
        _add_subjects(new, wanted.get("subjects", ()))
    else:
        _add_rules(new, wanted)
        _reconcile_aggregation(new, wanted.get("aggregationRule"))
    return None if new == stored else Reconciled(new)


def _merged_metadata(stored: Object, wanted: Object) -> Object:
    merged = dict(stored)
    for field in ("labels", "annotations"):
        merged[field] = {**wanted[field], **(stored.get(field) or {})}
    return merged


def _add_subjects(new: Object, wanted: Sequence[Object]) -> None:
    subjects = new.get("subjects") or []
    missing = [one for one in wanted if one not in subjects]
    if missing:
        new["subjects"] = [*subjects, *missing]


def _add_rules(new: Object, wanted: Object) -> None:
    """Aggregated roles get their rules from their controller."""
    rules = new.get("rules") or []
    if "aggregationRule" in wanted or rules == wanted["rules"]:
        return
    missing = list(uncovered(rules, wanted["rules"]))
    if missing:
        new["rules"] = [*rules, *missing]


def _reconcile_aggregation(new: Object, wanted: Object | None) -> None:
    if wanted is None:
        new.pop("aggregationRule", None)
        return
    selectors = (new.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    missing = [one for one in wanted["clusterRoleSelectors"] if one not in selectors]
    if missing:
        new["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *missing]}
