"""Which of some wanted rules other rules do not cover, broken down to one group, resource, verb and name each.

Writing a role or binding needs the rights in it, and a start adds the rights that a default role lacks:

    list(uncovered([GET_PODS], [GET_AND_LIST_PODS]))
        -> [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]

The number of parts is the product of the lists of a rule. A part that is covered as a whole is not broken down, and the
results come one by one, so that the caller can stop, or give up the event loop, between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from actors.access.authorization.rbac.roles import CompiledRole, CompiledRule, compiled_role, covering
from actors.access.rules import ANY
from actors.messages import Object
from actors.quoting import quoted


def uncovered(owned: Sequence[Object], wanted: Iterable[Object]) -> Iterator[Object]:
    return (part for part in parts(compiled_role(owned), wanted) if part is not None)


def parts(owned: CompiledRole, wanted: Iterable[Object]) -> Iterator[Object | None]:
    """A rule for every part that is not covered, None for those that are."""
    for rule in wanted:
        verbs, groups = rule.get("verbs") or (), rule.get("apiGroups") or ()
        names = rule.get("resourceNames") or ()
        for resource in rule.get("resources") or ():
            name, _, subresource = resource.partition("/")
            owners = list(owned.rules_of(covering(name, subresource)))
            if _covers_all(owners, groups, verbs, names):
                yield None
                continue
            for group in groups:
                yield from _parts_of_group(owners, group, resource, verbs, names)
        for path in rule.get("nonResourceURLs") or ():
            for verb in verbs:
                covered = any(one.allows(verb, path) for one in owned.paths)
                yield None if covered else {"verbs": [verb], "nonResourceURLs": [path]}


def _parts_of_group(
    owners: Sequence[CompiledRule], group: str, resource: str, verbs: Sequence[str], names: Sequence[str]
) -> Iterator[Object | None]:
    of_group = [one for one in owners if group in one.groups or ANY in one.groups]
    for verb in verbs:
        allowing = [one for one in of_group if verb in one.verbs or ANY in one.verbs]
        part: Object = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
        if any(not one.names for one in allowing):
            yield None
        elif not names:
            yield part
        else:
            for name in names:
                covered = any(name in one.names for one in allowing)
                yield None if covered else {**part, "resourceNames": [name]}


def _covers_all(
    owners: Sequence[CompiledRule], groups: Sequence[str], verbs: Sequence[str], names: Sequence[str]
) -> bool:
    """Whether one rule covers all of it."""
    return any(
        (ANY in one.groups or one.groups.issuperset(groups))
        and (ANY in one.verbs or one.verbs.issuperset(verbs))
        and (not one.names or (bool(names) and one.names.issuperset(names)))
        for one in owners
    )


def compact(rules: Iterable[Object]) -> list[Object]:
    """Put the verbs together of rules that differ in nothing else; rules of paths stay apart."""
    compacted: list[Object] = []
    by_resource: dict[tuple[str, str, str | None], Object] = {}
    for rule in rules:
        if "nonResourceURLs" in rule:
            compacted.append(rule)
            continue
        name = rule["resourceNames"][0] if "resourceNames" in rule else None
        same = by_resource.setdefault(
            (rule["apiGroups"][0], rule["resources"][0], name), {**rule, "verbs": []}
        )
        same["verbs"] = [*same["verbs"], *rule["verbs"]]
    return [*compacted, *by_resource.values()]


_DESCRIBED = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def described(rule: Object) -> str:
    """A rule in the text of an error: {APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"""
    shown = (f"{label}:{quoted_words(rule[field])}" for label, field in _DESCRIBED if rule.get(field))
    return "{" + ", ".join(shown) + "}"


def quoted_words(words: Sequence[str]) -> str:
    return f"[{' '.join(map(quoted, words))}]"
