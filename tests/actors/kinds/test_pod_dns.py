"""Pod: host names, host aliases and DNS."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import SUBDOMAIN, create_causes, pod
from tests.cases import cases

ADDRESS = "must be valid IP address"


def test_dns_policy_is_validated(kinds: Definitions) -> None:
    assert create_causes(kinds, dnsPolicy="Mine") == [
        (
            "spec.dnsPolicy",
            'Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst", '
            '"Default", "None"',
        )
    ]


def test_dns_policy_none_needs_nameservers(kinds: Definitions) -> None:
    assert create_causes(kinds, dnsPolicy="None") == [
        ("spec.dnsConfig", "Required value: must provide `dnsConfig` when `dnsPolicy` is None")
    ]
    assert create_causes(kinds, dnsPolicy="None", dnsConfig={"searches": ["a"]}) == [
        (
            "spec.dnsConfig.nameservers",
            "Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
        )
    ]
    assert create_causes(kinds, dnsPolicy="None", dnsConfig={"nameservers": ["::1"]}) == []


@cases(
    ("config", "causes"),
    [
        (
            {"nameservers": ["1.2.3.4"], "searches": ["a.b."], "options": [{"name": "ndots", "value": "2"}]},
            [],
        ),
        (
            {"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "x"]},
            [
                (
                    "nameservers",
                    'Invalid value: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "x"}: must not have more than '
                    "3 nameservers",
                ),
                ("nameservers[3]", f'Invalid value: "x": {ADDRESS}'),
            ],
        ),
        ({"searches": ["A"]}, [("searches[0]", f'Invalid value: "A": {SUBDOMAIN}')]),
        ({"options": [{"value": "x"}]}, [("options[0]", "Required value: must not be empty")]),
    ],
)
def test_dns_config_is_validated(kinds: Definitions, config: Any, causes: list[tuple[str, str]]) -> None:
    assert create_causes(kinds, dnsConfig=config) == [
        (f"spec.dnsConfig.{field}", text) for field, text in causes
    ]


def test_search_lists_are_limited(kinds: Definitions) -> None:
    ((_, text),) = create_causes(kinds, dnsConfig={"searches": ["a"] * 7})
    assert text.endswith(": must not have more than 6 search paths")
    ((_, text),) = create_causes(kinds, dnsConfig={"searches": ["a" * 60] * 5})
    assert text.endswith(": must not have more than 256 characters (including spaces) in the search list")


def test_update_may_keep_a_stored_long_search_list(kinds: Definitions) -> None:
    long = pod(dnsConfig={"searches": ["a"] * 7})
    _, causes = kinds.update("pods", long, long)
    assert causes == []


def test_host_aliases_are_validated(kinds: Definitions) -> None:
    aliases = [{"ip": "1.2.3.4", "hostnames": ["a.b"]}, {"ip": "x", "hostnames": ["A"]}]
    assert create_causes(kinds, hostAliases=aliases) == [
        ("spec.hostAliases.ip", f'Invalid value: "x": {ADDRESS}'),
        ("spec.hostAliases.hostnames", f'Invalid value: "A": {SUBDOMAIN}'),
    ]
