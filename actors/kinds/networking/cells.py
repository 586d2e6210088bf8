"""Table columns of the networking group."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.load_balancer import balanced_addresses
from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.workloads import selector_or_none
from actors.messages import Object

MOST_HOSTS: Final = 3


def _hosts(made: Object, _: int) -> str:
    rules = made["spec"].get("rules", [])
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    named = hosts[:MOST_HOSTS]
    rest = len(rules) - MOST_HOSTS
    more = f" + {rest} more..." if len(named) == MOST_HOSTS and _goes_on(rules) else ""
    return ",".join(named) + more if named else "*"


def _goes_on(rules: list[Object]) -> bool:
    """Whether a rule follows the last host that is shown."""
    shown = 0
    for rule in rules:
        if shown == MOST_HOSTS:
            return True
        shown += bool(rule.get("host"))
    return False


def _parameters(made: Object, _: int) -> str:
    parameters = made["spec"].get("parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


INGRESS: Final = (
    NAME,
    Column("Class", "string", "Class of its controller.", at("spec", "ingressClassName", missing=NONE)),
    Column("Hosts", "string", "Hosts it is about.", _hosts),
    Column(
        "Address",
        "string",
        "Where its load balancer answers.",
        lambda made, _: ",".join(balanced_addresses(made["status"]["loadBalancer"])),
    ),
    Column(
        "Ports",
        "string",
        "Ports it serves, one more with TLS.",
        lambda made, _: "80, 443" if made["spec"].get("tls") else "80",
    ),
    AGE,
)
INGRESS_CLASS: Final = (
    NAME,
    Column("Controller", "string", "Controller of its ingresses.", at("spec", "controller")),
    Column("Parameters", "string", "Where the parameters of that are.", _parameters),
    AGE,
)
NETWORK_POLICY: Final = (
    NAME,
    Column(
        "Pod-Selector",
        "string",
        "Pods it is about.",
        lambda made, _: selector_or_none(made["spec"]["podSelector"]),
    ),
    AGE,
)
