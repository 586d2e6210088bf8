"""RBAC with the default roles and bindings plus those that a test gives, without a journal."""

from __future__ import annotations

from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import RbacPolicy
from rewound.actors.bootstrap.objects import default_roles
from rewound.actors.kinds.schema.projection import structs_of
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER, Names


def rbac(names: Names = CLUSTER, *, defaults: bool = True) -> Rbac:
    authorizer = Rbac(RbacPolicy(names.group("rbac.authorization")))
    for type_name, document in default_roles(names, structs_of("1.25")) if defaults else ():
        put(authorizer, type_name.partition(".")[0], document)
    return authorizer


def put(authorizer: Rbac, plural: str, document: Object) -> None:
    key = document["metadata"].get("namespace", ""), document["metadata"]["name"]
    if plural.endswith("bindings"):
        authorizer.policy.put_binding(key, document)
    else:
        authorizer.policy.put_role(key, document)
    authorizer.policy.changed()


def role(name: str, *rules: Object, namespace: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": metadata, "rules": list(rules)}


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Object:
    """A rule from words separated by spaces; without groups it applies to the core group."""
    made: Object = {
        "verbs": verbs.split(),
        "apiGroups": groups.split() or [""],
        "resources": resources.split(),
    }
    return {**made, "resourceNames": names.split()} if names else made


def binding(name: str, role_name: str, *subjects: Object, namespace: str = "", kind: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    reference = {"kind": kind or ("Role" if namespace else "ClusterRole"), "name": role_name}
    return {"metadata": metadata, "subjects": list(subjects), "roleRef": reference}


def user(name: str) -> Object:
    return {"kind": "User", "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> Object:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}
