"""Pod: host names, host aliases and DNS."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.declared import Declared
from tests.actors.kinds.pods import SUBDOMAIN, pod, wrong

ADDRESS = "must be valid IP address"


def test_policies(kinds: Declared) -> None:
    assert wrong(kinds, dnsPolicy="Mine") == [
        (
            "spec.dnsPolicy",
            'Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst", '
            '"Default", "None"',
        )
    ]


def test_without_a_policy_there_must_be_servers(kinds: Declared) -> None:
    assert wrong(kinds, dnsPolicy="None") == [
        ("spec.dnsConfig", "Required value: must provide `dnsConfig` when `dnsPolicy` is None")
    ]
    assert wrong(kinds, dnsPolicy="None", dnsConfig={"searches": ["a"]}) == [
        (
            "spec.dnsConfig.nameservers",
            "Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
        )
    ]
    assert wrong(kinds, dnsPolicy="None", dnsConfig={"nameservers": ["::1"]}) == []


@pytest.mark.parametrize(
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
def test_configs(kinds: Declared, config: Any, causes: list[tuple[str, str]]) -> None:
    assert wrong(kinds, dnsConfig=config) == [(f"spec.dnsConfig.{field}", text) for field, text in causes]


def test_search_lists_are_short(kinds: Declared) -> None:
    ((_, text),) = wrong(kinds, dnsConfig={"searches": ["a"] * 7})
    assert text.endswith(": must not have more than 6 search paths")
    ((_, text),) = wrong(kinds, dnsConfig={"searches": ["a" * 60] * 5})
    assert text.endswith(": must not have more than 256 characters (including spaces) in the search list")


def test_long_search_lists_stay_where_they_are(kinds: Declared) -> None:
    long = pod(dnsConfig={"searches": ["a"] * 7})
    _, causes = kinds.replaced("pods", long, long)
    assert causes == []


def test_aliases_of_hosts(kinds: Declared) -> None:
    aliases = [{"ip": "1.2.3.4", "hostnames": ["a.b"]}, {"ip": "x", "hostnames": ["A"]}]
    assert wrong(kinds, hostAliases=aliases) == [
        ("spec.hostAliases.ip", f'Invalid value: "x": {ADDRESS}'),
        ("spec.hostAliases.hostnames", f'Invalid value: "A": {SUBDOMAIN}'),
    ]
