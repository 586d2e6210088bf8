"""The file of --authentication-config: validation with the texts of each version, recorded from 1.36 and 1.30."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rewound.actors.access.authentication.configuration import (
    KIND,
    SCHEME,
    check_configuration,
    structs_of_file,
)
from rewound.actors.access.authentication.issuers import (
    Anonymous,
    AuthenticationConfiguration,
    InvalidConfiguration,
)
from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.actors.versions.features import features_of_files, release_of
from rewound.server.configuration_file import ConfigurationFileError, decode_configuration

OWN = "https://kubernetes.default.svc"
VERSIONS = {"1.29": "v1alpha1", "1.30": "v1beta1", "1.33": "v1beta1", "1.36": "v1"}


def read(version: str, **members: Any) -> AuthenticationConfiguration:
    names = KUBERNETES if version else CLUSTER
    features = features_of_files(names.dialect, release_of(version or "1.25").features)
    group = names.group("apiserver.config")
    document = {"apiVersion": f"{group}/{VERSIONS.get(version, 'v1')}", "kind": KIND, **members}
    decoded = decode_configuration(
        json.dumps(document).encode(), KIND, structs_of_file(names, features), SCHEME
    )
    return check_configuration(decoded, names, features, [OWN], lone_group=True)


def errors(version: str, **members: Any) -> str:
    with pytest.raises((InvalidConfiguration, ConfigurationFileError)) as error:
        read(version, **members)
    return str(error.value).removeprefix("invalid authentication configuration: ")


def issuer(**changed: Any) -> dict[str, Any]:
    return {
        "issuer": {"url": "https://a.example.com", "audiences": ["a"], **changed.pop("issuer", {})},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}, **changed.pop("claimMappings", {})},
        **changed,
    }


def test_issuers_of_a_file() -> None:
    mapped = {
        "username": {"claim": "sub", "prefix": "p:"},
        "groups": {"claim": "roles", "prefix": "g:"},
        "uid": {"claim": "id"},
    }
    rules = [{"claim": "tier", "requiredValue": "gold"}]
    chosen = {
        "audiences": ["a", "b"],
        "audienceMatchPolicy": "MatchAny",
        "discoveryURL": "https://d.example.com/x",
    }
    found = read("1.36", jwt=[issuer(issuer=chosen, claimMappings=mapped, claimValidationRules=rules)])
    [one] = found.issuers
    assert (one.discovery_url, one.authorities, found.anonymous) == ("https://d.example.com/x", None, None)
    assert (one.rules.audiences, one.rules.required, one.rules.uid_claim) == (
        ("a", "b"),
        (("tier", "gold"),),
        "id",
    )
    assert (one.rules.username_prefix, one.rules.groups_prefix, one.rules.expressions) == ("p:", "g:", None)
    assert one.rules.id_key == "authentication.kubernetes.io/credential-id"
    assert read("1.30", jwt=[issuer()]).issuers[0].rules.id_key == ""
    assert read("1.36") == AuthenticationConfiguration()


def test_neutral_dialect_has_the_newest_form() -> None:
    found = read("", jwt=[issuer()], anonymous={"enabled": True, "conditions": [{"path": "/livez"}]})
    assert found.anonymous == Anonymous(True, frozenset({"/livez"}))
    assert found.issuers[0].rules.id_key == "authentication.cluster.io/credential-id"


def test_fields_and_issuers_by_version() -> None:
    assert errors("1.29") == "jwt: Required value: at least one jwt is required"
    assert errors("1.29", jwt=[issuer(), issuer()]) == "jwt: Too many: 2: must have at most 1 items"
    unknown = 'strict decoding error: unknown field "{}"'
    assert errors("1.29", jwt=[issuer(issuer={"discoveryURL": "x"})]) == unknown.format(
        "jwt[0].issuer.discoveryURL"
    )
    assert errors("1.30", anonymous={}) == unknown.format("anonymous")
    egress = [issuer(issuer={"egressSelectorType": "cluster"})]
    assert errors("1.33", jwt=egress) == unknown.format("jwt[0].issuer.egressSelectorType")
    assert "egress lookup required with egress selector type" in errors("1.36", jwt=egress)
    assert errors("1.36", jwt=[issuer()] * 65) == "jwt: Too many: 65: must have at most 64 items"


def test_versions_of_the_file() -> None:
    assert set(structs_of_file(KUBERNETES, release_of("1.29").features)) == {
        "apiserver.config.k8s.io/v1alpha1"
    }
    assert len(structs_of_file(KUBERNETES, release_of("1.33").features)) == 2
    assert len(structs_of_file(KUBERNETES, release_of("1.34").features)) == 3


@pytest.mark.parametrize(
    ("given", "newest", "old"),
    [
        ({"url": ""}, "url: Required value", "url: Required value: URL is required"),
        (
            {"url": "http://u:p@a b?x#y"},
            'url: Invalid value: "http://u:p@a b?x#y": parse "http://u:p@a b?x": invalid character " " in host name',
            "",
        ),
        (
            {"url": "https://u@a"},
            'url: Invalid value: "https://u@a": URL must not contain a username or password',
            "",
        ),
        ({"url": "http://a"}, 'url: Invalid value: "http://a": URL scheme must be https', ""),
        ({"url": "https://a?b"}, 'url: Invalid value: "https://a?b": URL must not contain a query', ""),
        ({"url": "https://a#b"}, 'url: Invalid value: "https://a#b": URL must not contain a fragment', ""),
        (
            {"url": OWN},
            f'url: Invalid value: "{OWN}": URL must not overlap with disallowed issuers: [{OWN}]',
            "",
        ),
        (
            {"discoveryURL": "https://a.example.com/"},
            'discoveryURL: Invalid value: "https://a.example.com/": discoveryURL must be different from URL',
            "",
        ),
        (
            {"audiences": []},
            "audiences: Required value: at least one jwt[0].issuer.audiences is required",
            "",
        ),
        (
            {"audiences": [""]},
            "audiences[0]: Required value",
            "audiences[0]: Required value: audience can't be empty",
        ),
        (
            {"audiences": ["a", "b"]},
            'audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences',
            "",
        ),
        (
            {"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"},
            'audiences[1]: Duplicate value: "a"',
            "",
        ),
        (
            {"audienceMatchPolicy": "Foo"},
            'audienceMatchPolicy: Invalid value: "Foo": audienceMatchPolicy must be empty or MatchAny for single '
            "audience",
            "",
        ),
        (
            {"certificateAuthority": "foo"},
            'certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA '
            "certificates",
            "",
        ),
    ],
)
def test_wrong_issuers(given: dict[str, Any], newest: str, old: str) -> None:
    for version, wanted in (("1.36", newest), ("1.30", old or newest)):
        assert errors(version, jwt=[issuer(issuer=given)]) == f"jwt[0].issuer.{wanted}"


@pytest.mark.parametrize(
    ("given", "newest", "old"),
    [
        ({"username": {}}, "username: Required value: claim or expression is required", ""),
        (
            {"username": {"claim": "sub"}},
            "username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string "
            "to disable prefixing",
            "",
        ),
        (
            {"username": {"claim": "a", "expression": "b"}},
            'username: Invalid value: "": claim and expression can\'t both be set',
            "",
        ),
        (
            {"username": {"expression": "claims.sub", "prefix": ""}},
            'username.prefix: Invalid value: "": may not be specified when expression is set',
            'username.prefix: Invalid value: "": prefix can\'t be set when expression is set',
        ),
        (
            {"uid": {"claim": "a", "expression": "b"}},
            'uid: Invalid value: "": claim and expression can\'t both be set',
            "",
        ),
        (
            {"extra": [{"key": "foo", "valueExpression": "'x'"}]},
            'extra[0].key: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")',
            "",
        ),
        (
            {"extra": [{"key": "a.b/X", "valueExpression": "'x'"}]},
            'extra[0].key: Invalid value: "a.b/X": must be lowercase',
            'extra[0].key: Invalid value: "a.b/X": key must be lowercase',
        ),
        (
            {"extra": [{"key": "a.b/x"}]},
            "extra[0].valueExpression: Required value",
            "extra[0].valueExpression: Required value: valueExpression is required",
        ),
        (
            {"username": {"expression": "claims.?email.orValue('x')"}},
            "username.expression: Invalid value: \"claims.?email.orValue('x')\": claims.email_verified must be used in "
            "claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
            "claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
            "",
        ),
    ],
)
def test_wrong_mappings(given: dict[str, Any], newest: str, old: str) -> None:
    for version, wanted in (("1.36", newest), ("1.30", old or newest)):
        assert errors(version, jwt=[issuer(claimMappings=given)]) == f"jwt[0].claimMappings.{wanted}"


def test_email_needs_a_look_at_email_verified() -> None:
    for verified, rules in (
        ("has(claims.email_verified) ? claims.email : ''", []),
        ("claims.email", [{"expression": "claims.?email_verified.orValue(true) == true"}]),
    ):
        mapped = {"username": {"expression": verified}}
        assert read("1.36", jwt=[issuer(claimMappings=mapped, claimValidationRules=rules)]).issuers


def test_reserved_keys_of_extra_fields() -> None:
    mapped = {"extra": [{"key": "a.kubernetes.io/x", "valueExpression": "'x'"}]}
    reserved = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
    wanted = f'jwt[0].claimMappings.extra[0].key: Invalid value: "a.kubernetes.io/x": {reserved}'
    assert errors("1.36", jwt=[issuer(claimMappings=mapped)]) == wanted
    assert read("1.30", jwt=[issuer(claimMappings=mapped)]).issuers


def test_wrong_rules() -> None:
    claim_rules = [
        {"claim": "a", "expression": "b"},
        {},
        {"claim": "a", "message": "m"},
        {"claim": "a"},
        {"expression": "claims.foo == 'x'", "requiredValue": "x"},
        {"expression": "claims.foo == 'x'"},
    ]
    user_rules = [{}, {"expression": "user.username"}, {"expression": "user.username"}]
    found = errors("1.36", jwt=[issuer(claimValidationRules=claim_rules, userValidationRules=user_rules)])
    assert found.strip("[]").split(", jwt[0].") == [
        'jwt[0].claimValidationRules[0]: Invalid value: "a": claim and expression can\'t both be set',
        "claimValidationRules[1]: Required value: claim or expression is required",
        'claimValidationRules[2].message: Invalid value: "m": may not be specified when claim is set',
        'claimValidationRules[3].claim: Duplicate value: "a"',
        'claimValidationRules[4].requiredValue: Invalid value: "x": may not be specified when expression is set',
        "claimValidationRules[5].expression: Duplicate value: \"claims.foo == 'x'\"",
        "userValidationRules[0].expression: Required value",
        'userValidationRules[1].expression: Invalid value: "user.username": must evaluate to bool',
        'userValidationRules[2].expression: Duplicate value: "user.username"',
    ]


def test_issuer_twice() -> None:
    both = {"discoveryURL": "https://d.example.com"}
    assert errors("1.36", jwt=[issuer(issuer=both), issuer(issuer=both)]) == (
        '[jwt[1].issuer.url: Duplicate value: "https://a.example.com", '
        'jwt[1].issuer.discoveryURL: Duplicate value: "https://d.example.com"]'
    )


def test_conditions_need_anonymous_requests() -> None:
    given = {"enabled": False, "conditions": [{"path": "/a"}, {"path": "/b"}]}
    assert errors("1.36", anonymous=given) == (
        'anonymous.conditions: Invalid value: [{"Path":"/a"},{"Path":"/b"}]: enabled should be set to true when '
        "conditions are defined"
    )
