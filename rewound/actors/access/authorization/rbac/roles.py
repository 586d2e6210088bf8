"""Roles and bindings compiled for matching requests; immutable.

    role = compiled_role([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale"]}])
    role.rules_of(covering("pods", ""))              -> the rule
    role.rules_of(covering("deployments", "scale"))  -> the rule, by */scale

The size of a compiled role grows with the sum of the lists in its rules, never with their product.

Also functions of stored rules: `uncovered`, the permissions of some rules that others lack, and `aggregated_rules`,
those of an aggregated ClusterRole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import orjson

from rewound.actors.access.authorize import ANY
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.meta import label_selector_matches
from rewound.actors.messages import Object
from rewound.actors.names import Names

SERVICE_ACCOUNT = "system:serviceaccount:"


_COMPILED = ("verbs", "apiGroups", "resourceNames")


class CompiledRule(msgspec.Struct, frozen=True, eq=False):
    """Verbs on groups; a role finds the rule by its resources."""

    verbs: frozenset[str]
    groups: frozenset[str]
    names: frozenset[str]  # empty: objects of any name

    def allows(self, verb: str, group: str) -> bool:
        return (verb in self.verbs or ANY in self.verbs) and (group in self.groups or ANY in self.groups)


class PathPattern(msgspec.Struct, frozen=True):
    verbs: frozenset[str]
    paths: frozenset[str]
    prefixes: tuple[str, ...]

    def allows(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or ANY in self.verbs) and (
            path in self.paths or (bool(self.prefixes) and path.startswith(self.prefixes))
        )


class CompiledRole(msgspec.Struct, frozen=True):
    rules: Sequence[Object]  # as stored
    by_resource: Mapping[str, Sequence[CompiledRule]]  # "pods", "pods/log", "*/scale" or "*"
    paths: tuple[PathPattern, ...]

    def rules_of(self, resources: Sequence[str]) -> Iterable[CompiledRule]:
        """The rules with one of these resources, whatever verbs and groups they have."""
        by_resource = self.by_resource
        return [rule for resource in resources if resource in by_resource for rule in by_resource[resource]]


def covering(resource: str, subresource: str) -> tuple[str, ...]:
    """The names by which rules may cover a resource: pods/log is covered by pods/log, * and */log."""
    if subresource:
        return f"{resource}/{subresource}", ANY, f"{ANY}/{subresource}"
    return resource, ANY


def compiled_role(rules: Sequence[Object]) -> CompiledRole:
    by_resource: dict[str, list[CompiledRule]] = {}
    paths = []
    known: dict[tuple[tuple[str, ...], ...], CompiledRule] = {}  # long lists of rules repeat verbs and groups
    for rule in rules:
        _check_lists(rule)
        if rule.get("nonResourceURLs"):
            paths.append(_path_pattern(frozenset(rule.get("verbs") or ()), rule["nonResourceURLs"]))
        lists = tuple([tuple(rule.get(field) or ()) for field in _COMPILED])
        compiled = known.get(lists)
        if compiled is None:
            compiled = known[lists] = CompiledRule(*map(frozenset, lists))
        for resource in rule.get("resources") or ():
            rules_of = by_resource.get(resource)
            if rules_of is None:
                by_resource[resource] = [compiled]
            elif rules_of[-1] is not compiled:
                rules_of.append(compiled)
    return CompiledRole(rules, by_resource, tuple(paths))


def _check_lists(rule: Object) -> None:
    """Raise TypeError if a member is not a list of strings: the letters of a string would grant something else."""
    for value in rule.values():
        if value is not None and (type(value) is not list or any(type(one) is not str for one in value)):
            raise TypeError("a rule has a member that is no list of strings")


def merged_roles(roles: Iterable[CompiledRole]) -> CompiledRole:
    """The rules of several roles as one."""
    by_resource: dict[str, list[CompiledRule]] = {}
    paths: list[PathPattern] = []
    for role in roles:
        for resource, rules in role.by_resource.items():
            by_resource.setdefault(resource, []).extend(rules)
        paths.extend(role.paths)
    return CompiledRole((), by_resource, tuple(paths))


def _path_pattern(verbs: frozenset[str], urls: Sequence[str]) -> PathPattern:
    prefixes = tuple(url.rstrip(ANY) for url in urls if url.endswith(ANY))
    return PathPattern(verbs, frozenset(urls), prefixes)


class CompiledBinding(msgspec.Struct, frozen=True):
    namespace: str  # "" for a ClusterRoleBinding
    name: str
    role_kind: str
    role_name: str
    role_key: tuple[str, str]  # namespace and name of the role; a ClusterRole has no namespace
    subjects: tuple[Object, ...]

    def users(self) -> Iterator[str]:
        """The names of users that are subjects, including service accounts."""
        for subject in self.subjects:
            if subject["kind"] == "User":
                yield subject["name"]
            elif subject["kind"] == "ServiceAccount" and (name := self._account(subject)):
                yield name

    def groups(self) -> Iterator[str]:
        return (subject["name"] for subject in self.subjects if subject["kind"] == "Group")

    def reason(self, user: User) -> str:
        """Why the user has the permissions of the role: the first subject that matches the user."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        subject = next((self._described(one) for one in self.subjects if self._is(one, user)), "")
        return f"{kind} {quoted(name)} of {self.role_kind} {quoted(self.role_name)} to {subject}"

    def _is(self, subject: Object, user: User) -> bool:
        match subject["kind"]:
            case "User":
                return bool(subject["name"] == user.name)
            case "Group":
                return subject["name"] in user.groups
            case _:
                return self._account(subject) == user.name

    def _account(self, subject: Object) -> str:
        """The user name of a service account; without a namespace it is in that of the binding."""
        namespace = subject.get("namespace") or self.namespace
        return f"{SERVICE_ACCOUNT}{namespace}:{subject['name']}" if namespace else ""

    def _described(self, subject: Object) -> str:
        name = subject["name"]
        if subject["kind"] == "ServiceAccount":
            name = f"{name}/{subject.get('namespace') or self.namespace}"
        return f"{subject['kind']} {quoted(name)}"


class LargeBinding(msgspec.Struct, frozen=True):
    """A binding with so many subjects that they are not indexed: `has` checks whether a user is one of them."""

    binding: CompiledBinding
    users: frozenset[str]
    groups: frozenset[str]

    def has(self, user: User) -> bool:
        return user.name in self.users or not self.groups.isdisjoint(user.groups)


def large_binding(namespace: str, name: str, stored: Object) -> LargeBinding:
    binding = compiled_binding(namespace, name, stored)
    return LargeBinding(binding, frozenset(binding.users()), frozenset(binding.groups()))


def compiled_binding(namespace: str, name: str, stored: Object) -> CompiledBinding:
    kind, role = stored["roleRef"]["kind"], stored["roleRef"]["name"]
    key = ("" if kind == "ClusterRole" else namespace, role)
    return CompiledBinding(namespace, name, kind, role, key, tuple(stored.get("subjects") or ()))


def uncovered(owned: Sequence[Object], wanted: Iterable[Object]) -> Iterator[Object]:
    """The parts of the wanted rules that other rules do not cover, with one group, resource, verb and name each.

    Writing a role or binding requires its permissions, and a start adds the permissions that a default role lacks:

        list(uncovered([GET_PODS], [GET_AND_LIST_PODS]))
            -> [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]

    The number of parts is the product of the lists of a rule. A part that is covered as a whole is not broken down, and
    the results come one by one, so that the caller can stop, or yield to the event loop, between two of them.
    """
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
    """Merge the verbs of rules that are otherwise equal; rules of paths stay separate."""
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


def selects(role: Object, labels: dict[str, str]) -> bool:
    """Whether an aggregated role includes the rules of a role with these labels."""
    selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
    return any(label_selector_matches(selector, labels) for selector in selectors)


def aggregated_rules(role: Object, others: Iterable[Object]) -> list[Object]:
    """The rules of an aggregated ClusterRole: those of all cluster roles that its selectors match, without duplicates.

    `others` in the order of their names; `role` itself may be among them.
    """
    candidates = [one for one in others if one["metadata"]["name"] != role["metadata"]["name"]]
    found: dict[bytes, Object] = {}
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for one in candidates:
            if label_selector_matches(selector, one["metadata"].get("labels") or {}):
                for rule in one.get("rules") or ():
                    found.setdefault(unescaped(rule, option=orjson.OPT_SORT_KEYS), rule)
    return list(found.values())


def autoupdate_key(names: Names) -> str:
    """The annotation that controls whether a start reconciles a default role or binding; "false": it does not."""
    return names.key("autoupdate", "rbac.authorization")


def aggregate_label(names: Names, role: str) -> str:
    """The label of cluster roles that the default role `admin`, `edit` or `view` aggregates."""
    return f"{names.group('rbac.authorization')}/aggregate-to-{role}"
