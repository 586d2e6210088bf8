"""How the containers of a pod find other machines by name."""

from __future__ import annotations

from typing import Final

from actors.kinds.schema.fields import STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    dns_subdomain,
    each,
    invalid,
    not_supported,
    parse_ip,
    required,
)
from actors.messages import Object

POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MOST_NAMESERVERS: Final = 3
BAD_ADDRESS: Final = "must be valid IP address"

HOST_ALIAS = Struct(
    "core.v1.HostAlias",
    Field("ip", STRING, 1),
    Field("hostnames", STRINGS, 2),
)
POD_DNS_CONFIG_OPTION = Struct(
    "core.v1.PodDNSConfigOption",
    Field("name", STRING, 1),
    Field("value", STRING, 2, pointer=True),
)
POD_DNS_CONFIG = Struct(
    "core.v1.PodDNSConfig",
    Field("nameservers", STRINGS, 1),
    Field("searches", STRINGS, 2),
    Field("options", ListOf(POD_DNS_CONFIG_OPTION), 3),
)

# Search lists: how many domains, and how many letters with the spaces between them.
ORDINARY_SEARCH: Final = (6, 256)
EXPANDED_SEARCH: Final = (32, 2048)


def dns_policy_rules(policy: str, field: str) -> list[FieldError]:
    if policy in POLICIES:
        return []
    return [not_supported(field, policy, POLICIES) if policy else required(field)]


def dns_config_rules(config: Object | None, policy: str, field: str, *, expanded: bool) -> list[FieldError]:
    if policy == "None":
        if config is None:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", text)]
    if not config:
        return []
    errors = _nameserver_rules(config.get("nameservers", []), f"{field}.nameservers")
    limits = EXPANDED_SEARCH if expanded else ORDINARY_SEARCH
    errors += _search_rules(config.get("searches", []), f"{field}.searches", limits)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(required(f"{field}.options[{index}]", "must not be empty"))
    return errors


def _nameserver_rules(servers: list[str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(servers) > MOST_NAMESERVERS:
        errors.append(invalid(field, servers, f"must not have more than {MOST_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        if parse_ip(server) is None:
            errors.append(invalid(f"{field}[{index}]", server, BAD_ADDRESS))
    return errors


def _search_rules(domains: list[str], field: str, limits: tuple[int, int]) -> list[FieldError]:
    most, letters = limits
    errors: list[FieldError] = []
    if len(domains) > most:
        errors.append(invalid(field, domains, f"must not have more than {most} search paths"))
    if len(" ".join(domains).encode()) > letters:
        text = f"must not have more than {letters} characters (including spaces) in the search list"
        errors.append(invalid(field, domains, text))
    for index, domain in enumerate(domains):
        name = domain.removesuffix(".")
        errors += each(f"{field}[{index}]", name, dns_subdomain(name))
    return errors


def is_expanded(config: Object) -> bool:
    """The search list is longer than is ordinarily allowed."""
    most, letters = ORDINARY_SEARCH
    domains = config.get("searches", [])
    return len(domains) > most or len(" ".join(domains).encode()) > letters


def host_alias_rules(aliases: list[Object], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for alias in aliases:
        address = alias.get("ip", "")
        if parse_ip(address) is None:
            errors.append(invalid(f"{field}.ip", address, BAD_ADDRESS))
        for name in alias.get("hostnames", ()):
            errors += each(f"{field}.hostnames", name, dns_subdomain(name))
    return errors
