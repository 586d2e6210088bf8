"""The mandatory and suggested FlowSchemas and PriorityLevelConfigurations of a version, as documents without status.

The server creates missing ones; `actors.controllers.flow_control` maintains them from then on. Pure.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rewound.actors.identity import AUTHENTICATED, UNAUTHENTICATED
from rewound.actors.kinds import flowcontrol
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import LENDING, ONLY_LEASES_LOCK

EXEMPT, CATCH_ALL = "exempt", "catch-all"
MANDATORY = (EXEMPT, CATCH_ALL)
SPEC_MANAGER = "api-priority-and-fairness-config-producer-v1"  # owns the fields of these objects
_SERVICE_ACCOUNTS = "system:serviceaccounts"
_NODES = "system:nodes"
_CONTROLLER_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_LEASE_VERBS = ["get", "create", "update"]


def autoupdate_key(names: Names) -> str:
    """The annotation of objects whose spec the server resets to its initial value."""
    return names.key("autoupdate-spec", "apf")


def flow_schema_type(names: Names) -> str:
    return f"flowschemas.{names.group('flowcontrol.apiserver')}"


def priority_level_type(names: Names) -> str:
    return f"prioritylevelconfigurations.{names.group('flowcontrol.apiserver')}"


@cache
def initial_specs(names: Names, features: frozenset[str]) -> dict[str, dict[str, Object]]:
    """The specs by type and name. Callers must not change them."""
    schemas: dict[str, Any] = {**flowcontrol.MANDATORY_FLOW_SCHEMAS, **_suggested_schemas(names)}
    if ONLY_LEASES_LOCK in features:
        del schemas["endpoint-controller"], schemas["workload-leader-election"]
    return {
        flow_schema_type(names): schemas,
        priority_level_type(names): {
            **flowcontrol.mandatory_levels(features),
            **_suggested_levels(lending=LENDING in features),
        },
    }


def initial_object(names: Names, features: frozenset[str], type_name: str, name: str) -> Object:
    metadata = {"name": name, "annotations": {autoupdate_key(names): "true"}}
    return {"metadata": metadata, "spec": initial_specs(names, features)[type_name][name]}


def _suggested_levels(*, lending: bool) -> dict[str, Object]:
    levels = {
        "node-high": _queuing_level(40, 64, 6, 25),
        "system": _queuing_level(30, 64, 6, 33),
        "leader-election": _queuing_level(10, 16, 4, 0),
        "workload-high": _queuing_level(40, 128, 6, 50),
        "workload-low": _queuing_level(100, 128, 6, 90),
        "global-default": _queuing_level(20, 128, 6, 50),
    }
    if not lending:
        for level in levels.values():
            del level["limited"]["lendablePercent"]
    return levels


def _queuing_level(shares: int, queues: int, hand_size: int, lendable: int) -> Object:
    queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50}
    limited = {
        "assuredConcurrencyShares": shares,
        "limitResponse": {"type": "Queue", "queuing": queuing},
        "lendablePercent": lendable,
    }
    return {"type": "Limited", "limited": limited}


def _suggested_schemas(names: Names) -> dict[str, Object]:
    system, leases = names.system_namespace, names.group("coordination")
    lease_rule = _resource_rule(_LEASE_VERBS, leases, ["leases"])
    everybody = [_group(UNAUTHENTICATED), _group(AUTHENTICATED)]
    probes = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
    return {
        "probes": _schema(EXEMPT, 2, None, {"subjects": everybody, "nonResourceRules": [probes]}),
        "system-leader-election": _schema(
            "leader-election",
            100,
            "ByUser",
            _rules([_user(_CONTROLLER_MANAGER), _user(_SCHEDULER), _account(system, "*")], lease_rule),
        ),
        "endpoint-controller": _schema(
            "workload-high",
            150,
            "ByUser",
            _rules(
                [
                    _user(_CONTROLLER_MANAGER),
                    _account(system, "endpoint-controller"),
                    _account(system, "endpointslicemirroring-controller"),
                ],
                _resource_rule(_LEASE_VERBS, "", ["endpoints"]),
            ),
        ),
        "workload-leader-election": _schema(
            "leader-election",
            200,
            "ByUser",
            _rules(
                [_account(system, "*")],
                _resource_rule(_LEASE_VERBS, "", ["endpoints", "configmaps"]),
                lease_rule,
            ),
        ),
        "system-node-high": _schema(
            "node-high",
            400,
            "ByUser",
            _rules(
                [_group(_NODES)],
                _resource_rule(["*"], "", ["nodes", "nodes/status"], clusterScope=True),
                _resource_rule(["*"], leases, ["leases"]),
            ),
        ),
        "system-nodes": _schema("system", 500, "ByUser", _all_requests(_group(_NODES))),
        "kube-controller-manager": _schema(
            "workload-high", 800, "ByNamespace", _all_requests(_user(_CONTROLLER_MANAGER))
        ),
        "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _all_requests(_user(_SCHEDULER))),
        f"{system}-service-accounts": _schema(
            "workload-high", 900, "ByNamespace", _all_requests(_account(system, "*"))
        ),
        "service-accounts": _schema("workload-low", 9000, "ByUser", _all_requests(_group(_SERVICE_ACCOUNTS))),
        "global-default": _schema("global-default", 9900, "ByUser", _all_requests(*everybody)),
    }


def _schema(level: str, precedence: int, method: str | None, rules: Object) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if method is not None:
        spec["distinguisherMethod"] = {"type": method}
    spec["rules"] = [rules]
    return spec


def _rules(subjects: list[Object], *resource_rules: Object) -> Object:
    return {"subjects": subjects, "resourceRules": list(resource_rules)}


def _all_requests(*subjects: Object) -> Object:
    return {"subjects": list(subjects), **flowcontrol.FLOW_SCHEMA_EVERYTHING}


def _resource_rule(verbs: list[str], group: str, resources: list[str], **scope: Any) -> Object:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources, **scope, "namespaces": ["*"]}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


def _account(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}
