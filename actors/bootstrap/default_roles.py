"""The default roles and bindings of RBAC, read from `default_roles.txt`, which explains its form.

Pure functions that return documents; `Bootstrap` creates what is missing and reconciles what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from actors.access.authorization.rbac.roles import aggregate_label, aggregated_rules, autoupdate_key
from actors.messages import Object
from actors.names import Names

FILE: Final = Path(__file__).with_name("default_roles.txt")
_PLURALS: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


@cache
def default_roles(names: Names) -> tuple[tuple[str, Object], ...]:
    """Type name and document of every default role and binding; aggregated roles have their rules already.

    Documents are as if decoded: with fields in declared order, and without any that has a default. Nobody changes them.
    """
    reader = _Reader(names)
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            reader.read(line)
    _aggregate([document for type_name, document in reader.found if type_name.startswith("clusterroles.")])
    return tuple(reader.found)


def _aggregate(roles: Sequence[Object]) -> None:
    """Fill view, then edit, then admin: each aggregates the one before, and comes before it by name."""
    for role in sorted(roles, key=_name, reverse=True):
        if "aggregationRule" in role:
            role["rules"] = aggregated_rules(role, sorted(roles, key=_name))


def _name(role: Object) -> str:
    name: str = role["metadata"]["name"]
    return name


class _Reader:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._group = names.group("rbac.authorization")
        self._namespaces = {"system": names.system_namespace, "public": names.public_namespace}
        self._in_names = {
            "{certificates}": names.group("certificates"),
            "{client_signer}": names.client_signer,
            "{node_client_signer}": names.node_client_signer,
            "{serving_signer}": names.serving_signer,
            "{legacy_signer}": names.legacy_signer,
        }
        self.found: list[tuple[str, Object]] = []

    def read(self, line: str) -> None:
        words = line.split()
        if line.startswith(" "):
            self.found[-1][1]["rules"].append(self._rule(words))
            return
        kind, name, *others = words
        document: Object = {"metadata": self._metadata(name)}
        if kind.endswith("Binding"):
            if subjects := [self._subject(word) for word in others[1:]]:
                document["subjects"] = subjects
            document["roleRef"] = {
                "apiGroup": self._group,
                "kind": kind.removesuffix("Binding"),
                "name": self._filled(others[0]),
            }
        else:
            document["rules"] = []
            self._set_aggregation(document, others)
        self.found.append((f"{_PLURALS[kind]}.{self._group}", document))

    def _metadata(self, name: str) -> Object:
        namespace, _, rest = name.rpartition("/")
        metadata: Object = {"name": self._filled(rest)}
        if namespace:
            metadata["namespace"] = self._namespaces[namespace]
        metadata["labels"] = {self._names.key("bootstrapping"): "rbac-defaults"}
        metadata["annotations"] = {autoupdate_key(self._names): "true"}
        return metadata

    def _set_aggregation(self, role: Object, words: Sequence[str]) -> None:
        for word in words:
            label = aggregate_label(self._names, word[1:])
            if word[0] == "+":
                role["metadata"]["labels"][label] = "true"
            else:
                role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}

    def _rule(self, words: Sequence[str]) -> Object:
        verbs, groups, *lists = (word.split(",") for word in words)
        if groups == ["paths"]:
            return {"verbs": verbs, "nonResourceURLs": lists[0]}
        rule: Object = {
            "verbs": verbs,
            "apiGroups": [self._api_group(group) for group in groups],
            "resources": lists[0],
        }
        if len(lists) > 1:
            rule["resourceNames"] = [self._filled(name) for name in lists[1]]
        return rule

    def _api_group(self, word: str) -> str:
        if word == "core":
            return ""
        return self._names.group(word[:-1]) if word.endswith(".") else word

    def _subject(self, word: str) -> Object:
        kind, _, name = word.partition(":")
        if kind == "ServiceAccount":
            namespace, _, account = name.partition("/")
            return {"kind": kind, "name": account, "namespace": self._namespaces[namespace]}
        return {"kind": kind, "apiGroup": self._group, "name": name}

    def _filled(self, text: str) -> str:
        for mark, name in self._in_names.items():
            text = text.replace(mark, name)
        return text
