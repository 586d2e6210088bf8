"""Table columns of the networking group."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.load_balancer import load_balancer_addresses
from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.workloads import selector_or_none
from actors.messages import Object

MAX_HOSTS: Final = 3


def _hosts_cell(stored: Object, _: int) -> str:
    rules = stored["spec"].get("rules", [])
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    named = hosts[:MAX_HOSTS]
    rest = len(rules) - MAX_HOSTS
    more = f" + {rest} more..." if len(named) == MAX_HOSTS and _has_more_rules(rules) else ""
    return ",".join(named) + more if named else "*"


def _has_more_rules(rules: list[Object]) -> bool:
    """Whether a rule follows the last host in the cell."""
    shown = 0
    for rule in rules:
        if shown == MAX_HOSTS:
            return True
        shown += bool(rule.get("host"))
    return False


def _parameters_cell(stored: Object, _: int) -> str:
    parameters = stored["spec"].get("parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


INGRESS: Final = (
    NAME,
    Column("Class", "string", "Name of its IngressClass.", at("spec", "ingressClassName", missing=NONE)),
    Column("Hosts", "string", "Hosts of its rules.", _hosts_cell),
    Column(
        "Address",
        "string",
        "Addresses of its load balancer.",
        lambda stored, _: ",".join(load_balancer_addresses(stored["status"]["loadBalancer"])),
    ),
    Column(
        "Ports",
        "string",
        "Ports that it serves: 80, and 443 with TLS.",
        lambda stored, _: "80, 443" if stored["spec"].get("tls") else "80",
    ),
    AGE,
)
INGRESS_CLASS: Final = (
    NAME,
    Column("Controller", "string", "Controller of its Ingresses.", at("spec", "controller")),
    Column("Parameters", "string", "Object with parameters of the controller.", _parameters_cell),
    AGE,
)
NETWORK_POLICY: Final = (
    NAME,
    Column(
        "Pod-Selector",
        "string",
        "Pods that the policy selects.",
        lambda stored, _: selector_or_none(stored["spec"]["podSelector"]),
    ),
    AGE,
)
