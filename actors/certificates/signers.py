"""The rules of the built-in signers: which requests each of them signs. Every other signer is left to other programs.

| signer      | subject                                 | usages                          | names              |
|-------------|-----------------------------------------|---------------------------------|--------------------|
| client      | any                                     | client auth, and two more       | any                |
| node client | organization and name of a node         | exactly three, with client auth | none               |
| serving     | organization and name of a node         | exactly three, with server auth | DNS and IP, one up |
| legacy      | any                                     | any                             | any                |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from actors.certificates.requests import RequestFacts
from actors.names import Names

NODES: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
_KEY_USAGES: Final = frozenset({"digital signature", "key encipherment"})
CLIENT_USAGES: Final = _KEY_USAGES | {"client auth"}
SERVING_USAGES: Final = _KEY_USAGES | {"server auth"}

# Why the signer does not sign such a request; empty if it does.
Rule = Callable[[RequestFacts, Sequence[str]], str]


def rules(names: Names) -> dict[str, Rule]:
    """By the name of the signer."""
    return {
        names.client_signer: client_refusal,
        names.node_client_signer: node_client_refusal,
        names.serving_signer: serving_refusal,
        names.legacy_signer: lambda facts, usages: "",
    }


def client_refusal(facts: RequestFacts, usages: Sequence[str]) -> str:
    if "client auth" not in usages:
        return "its usages must include client auth"
    return _others("its usages may only be", set(usages) - CLIENT_USAGES, CLIENT_USAGES)


def node_client_refusal(facts: RequestFacts, usages: Sequence[str]) -> str:
    if facts.has_alternative_names:
        return "it may not have subject alternative names"
    return _not_of_a_node(facts) or _not_exactly(usages, CLIENT_USAGES)


def serving_refusal(facts: RequestFacts, usages: Sequence[str]) -> str:
    if facts.other_names:
        return "its subject alternative names may only be DNS names and IP addresses"
    if not facts.dns_names and not facts.addresses:
        return "it must have at least one DNS name or IP address"
    return _not_of_a_node(facts) or _not_exactly(usages, SERVING_USAGES)


def _not_of_a_node(facts: RequestFacts) -> str:
    if facts.organizations != (NODES,):
        return f"the organization of its subject must be {NODES} and no other"
    if len(facts.common_names) != 1 or not facts.common_names[0].startswith(NODE_PREFIX):
        return f"the subject must have one common name, which starts with {NODE_PREFIX}"
    return ""


def _not_exactly(usages: Sequence[str], expected: frozenset[str]) -> str:
    if set(usages) == expected:
        return ""
    return f"its usages must be {', '.join(sorted(expected))}"


def _others(text: str, others: set[str], allowed: frozenset[str]) -> str:
    return f"{text} {', '.join(sorted(allowed))}" if others else ""
