"""DNS settings of the containers of a pod."""

from __future__ import annotations

from typing import Final

from actors.kinds.schema.fields import STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, dns_subdomain, invalid, not_supported, parse_ip, required
from actors.messages import Object

POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MAX_NAMESERVERS: Final = 3
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

# Search lists: the number of domains, and of characters with the spaces between them.
DEFAULT_SEARCH_LIMITS: Final = (6, 256)
EXPANDED_SEARCH_LIMITS: Final = (32, 2048)


def dns_policy_rules(errors: FieldErrors, policy: str, field: str) -> None:
    if policy not in POLICIES:
        errors.add(not_supported(field, policy, POLICIES) if policy else required(field))


def dns_config_rules(
    errors: FieldErrors, config: Object | None, policy: str, field: str, *, expanded: bool
) -> None:
    if policy == "None":
        if config is None:
            errors.add(required(field, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.add(required(f"{field}.nameservers", text))
            return
    if not config:
        return
    _nameserver_rules(errors, config.get("nameservers", []), f"{field}.nameservers")
    limits = EXPANDED_SEARCH_LIMITS if expanded else DEFAULT_SEARCH_LIMITS
    _search_rules(errors, config.get("searches", []), f"{field}.searches", limits)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.add(required(f"{field}.options[{index}]", "must not be empty"))


def _nameserver_rules(errors: FieldErrors, servers: list[str], field: str) -> None:
    if len(servers) > MAX_NAMESERVERS:
        errors.add(invalid(field, servers, f"must not have more than {MAX_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        if parse_ip(server) is None:
            errors.add(invalid(f"{field}[{index}]", server, BAD_ADDRESS))


def _search_rules(errors: FieldErrors, domains: list[str], field: str, limits: tuple[int, int]) -> None:
    max_domains, max_characters = limits
    if len(domains) > max_domains:
        errors.add(invalid(field, domains, f"must not have more than {max_domains} search paths"))
    if len(" ".join(domains).encode()) > max_characters:
        text = f"must not have more than {max_characters} characters (including spaces) in the search list"
        errors.add(invalid(field, domains, text))
    for index, domain in enumerate(domains):
        name = domain.removesuffix(".")
        errors.add_each(f"{field}[{index}]", name, dns_subdomain(name))


def is_expanded(config: Object) -> bool:
    """Whether the search list is longer than usually allowed."""
    max_domains, max_characters = DEFAULT_SEARCH_LIMITS
    domains = config.get("searches", [])
    return len(domains) > max_domains or len(" ".join(domains).encode()) > max_characters


def host_alias_rules(errors: FieldErrors, aliases: list[Object], field: str) -> None:
    for alias in aliases:
        address = alias.get("ip", "")
        if parse_ip(address) is None:
            errors.add(invalid(f"{field}.ip", address, BAD_ADDRESS))
        for name in alias.get("hostnames", ()):
            errors.add_each(f"{field}.hostnames", name, dns_subdomain(name))
