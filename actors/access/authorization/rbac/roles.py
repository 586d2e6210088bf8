"""Roles and bindings as RBAC matches requests against them: compiled from the stored objects, immutable.

    role = compiled_role([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale"]}])
    role.rules_of(covering("pods", ""))              -> the rule
    role.rules_of(covering("deployments", "scale"))  -> the rule, by */scale

The size of a compiled role grows with the sum of the lists in its rules, never with their product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from actors.access.rules import ANY
from actors.identity import User
from actors.messages import Object
from actors.quoting import quoted

SERVICE_ACCOUNT = "system:serviceaccount:"


_COMPILED = ("verbs", "apiGroups", "resourceNames")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRule:
    """Verbs on groups; the resources are the keys under which a role finds the rule."""

    verbs: frozenset[str]
    groups: frozenset[str]
    names: frozenset[str]  # empty: objects of any name

    def allows(self, verb: str, group: str) -> bool:
        return (verb in self.verbs or ANY in self.verbs) and (group in self.groups or ANY in self.groups)


@dataclass(frozen=True, slots=True)
class PathPattern:
    verbs: frozenset[str]
    paths: frozenset[str]
    prefixes: tuple[str, ...]

    def allows(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or ANY in self.verbs) and (
            path in self.paths or (bool(self.prefixes) and path.startswith(self.prefixes))
        )


@dataclass(frozen=True, slots=True)
class CompiledRole:
    rules: Sequence[Object]  # as stored
    by_resource: Mapping[str, Sequence[CompiledRule]]  # "pods", "pods/log", "*/scale" or "*"
    paths: tuple[PathPattern, ...]

    def rules_of(self, resources: Sequence[str]) -> Iterable[CompiledRule]:
        """The rules with one of these resources, whatever verbs and groups they have."""
        by_resource = self.by_resource
        return [rule for resource in resources if resource in by_resource for rule in by_resource[resource]]


def covering(resource: str, subresource: str) -> tuple[str, ...]:
    """How the rules that cover a resource may name it: pods/log is covered by pods/log, * and */log."""
    if subresource:
        return f"{resource}/{subresource}", ANY, f"{ANY}/{subresource}"
    return resource, ANY


def compiled_role(rules: Sequence[Object]) -> CompiledRole:
    by_resource: dict[str, list[CompiledRule]] = {}
    paths = []
    known: dict[tuple[tuple[str, ...], ...], CompiledRule] = {}  # long lists of rules repeat verbs and groups
    for rule in rules:
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


@dataclass(frozen=True, slots=True)
class CompiledBinding:
    namespace: str  # "" for a ClusterRoleBinding
    name: str
    role_kind: str
    role_name: str
    role_key: tuple[str, str]  # namespace and name of the role; a ClusterRole has no namespace
    subjects: tuple[Object, ...]

    def users(self) -> Iterator[str]:
        """The names of users that are subjects, service accounts among them."""
        for subject in self.subjects:
            if subject["kind"] == "User":
                yield subject["name"]
            elif subject["kind"] == "ServiceAccount" and (name := self._account(subject)):
                yield name

    def groups(self) -> Iterator[str]:
        return (subject["name"] for subject in self.subjects if subject["kind"] == "Group")

    def reason(self, user: User) -> str:
        """Why the user has the rights of the role: the first subject that stands for the user."""
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
        """The user name of a service account; one without a namespace is in that of the binding."""
        namespace = subject.get("namespace") or self.namespace
        return f"{SERVICE_ACCOUNT}{namespace}:{subject['name']}" if namespace else ""

    def _described(self, subject: Object) -> str:
        name = subject["name"]
        if subject["kind"] == "ServiceAccount":
            name = f"{name}/{subject.get('namespace') or self.namespace}"
        return f"{subject['kind']} {quoted(name)}"


@dataclass(frozen=True, slots=True)
class LargeBinding:
    """A binding with so many subjects that no index has them: it is asked whether a user is one of them."""

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
