"""`--runtime-config`: what each key switches on and off, and the errors of invalid ones."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import parse_enablement
from rewound.actors.names import CLUSTER, KUBERNETES, Names
from tests.cases import cases

ALL = built_in(CLUSTER)
BETAS = {
    "autoscaling/v2beta2",
    "flowcontrol.apiserver.cluster.io/v1beta1",
    "flowcontrol.apiserver.cluster.io/v1beta2",
    "policy/v1beta1",
    "storage.cluster.io/v1beta1",
}


def served(text: str) -> set[str]:
    return {d.api_version for d in built_in(CLUSTER, enabled=parse_enablement(text)).definitions}


def resources(text: str, api_version: str) -> set[str]:
    catalog = built_in(CLUSTER, enabled=parse_enablement(text))
    return {d.plural for d in catalog.definitions if d.api_version == api_version}


ALPHA = {"internal.apiserver.cluster.io/v1alpha1"}
OFF = {"authentication.cluster.io/v1beta1"} | ALPHA  # unless they are switched on
DECLARED = {d.api_version for d in ALL.declared}
EVERY = DECLARED - OFF
APPS = resources("", "apps/v1")


@cases(
    ("text", "versions"),
    [
        ("", EVERY),
        (" , ", EVERY),
        ("api/all", DECLARED),
        ("api/all=true", DECLARED),
        ("api/legacy=true", EVERY),
        ("api/legacy=false", EVERY),
        ("api/alpha=true", EVERY | ALPHA),
        ("apps/v1=false", EVERY - {"apps/v1"}),
        ("apps/v1=false,apps/v1", EVERY),
        ("apps/v1=true", EVERY),
        ("api/beta=false", EVERY - BETAS),
        ("api/beta=false,policy/v1beta1", EVERY - BETAS | {"policy/v1beta1"}),
        ("policy/v1beta1=true,api/beta=false", EVERY - BETAS | {"policy/v1beta1"}),
        ("api/ga=false", BETAS),
        ("api/all=false,api/ga", EVERY - BETAS),
        ("api/all=false,v1=true", {"v1"}),
        ("api/all=false,api/v1=true", {"v1"}),
        ("api/all=false,v1,apps/v1", {"v1", "apps/v1"}),
        ("authentication.cluster.io/v1beta1", DECLARED - ALPHA),
        ("v1=false", EVERY - {"v1"}),
        ("imagepolicy.cluster.io/v1alpha1=true", EVERY),
    ],
)
def test_served_versions(text: str, versions: set[str]) -> None:
    assert served(text) == versions
    parse_enablement(text).refuse_unknown(ALL.declared, CLUSTER)


@cases(
    ("text", "plurals"),
    [
        ("apps/v1/deployments=false", APPS - {"deployments"}),
        ("apps/v1=false,apps/v1/deployments=true", {"deployments"}),
        ("apps/v1/deployments,apps/v1=false", {"deployments"}),
        ("api/all=false,apps/v1/deployments", {"deployments"}),
        ("api/all=false,v1", set()),
    ],
)
def test_served_resources(text: str, plurals: set[str]) -> None:
    assert resources(text, "apps/v1") == plurals


@cases(
    ("text", "why"),
    [
        ("apps/v1=maybe", "'apps/v1=maybe' is neither true nor false"),
        ("apps/v1=", "'apps/v1=' is neither true nor false"),
        ("api/all=0", "'api/all=0' is neither true nor false"),
        ("apps", "'apps' is not of the form <group>/<version>"),
        ("apps/", "'apps/' is not of the form"),
        ("a/b/c/d", "'a/b/c/d' is not of the form"),
        ("/v1", "'/v1' names no group"),
        ("=true", "'' names no group"),
        ("api/all=false", "'api/all=false' leaves nothing to serve"),
        ("api/all=false,apps/v1=false", "'api/all=false,apps/v1=false' leaves nothing to serve"),
        ("web/v1", "there is no group 'web'; there are admissionregistration.cluster.io, "),
        ("extensions/v1beta1=true", "there is no group 'extensions'"),
        ("apps/v1beta1=true", "there is no version 'apps/v1beta1'; there are v1"),
        ("apps/v1beta2=false", "there is no version 'apps/v1beta2'"),
        ("v2=true", "there is no version 'v2'; there are v1"),
        ("api/everything", "there is no version 'everything'"),
        ("apps/v1/pods=false", "there is no 'pods' in apps/v1; there are controllerrevisions, "),
    ],
)
def test_invalid_keys_and_values_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + why):
        parse_enablement(text).refuse_unknown(ALL.declared, CLUSTER)


def test_disabled_stored_kinds_stay_declared(names: Names) -> None:
    catalog = built_in(names, enabled=parse_enablement("apps/v1=false"))
    assert catalog.find("apps", "v1", "deployments") is None and not catalog.group_exists("apps")
    assert catalog.storage("deployments.apps").kind == "Deployment"
    assert "apps" not in catalog.groups() and not catalog.serves("apps", "deployments")


@cases(
    ("text", "on"),
    [
        ("", False),
        ("apps/v1=true", False),
        ("api/ga=true", False),
        ("policy/v1beta1", True),
        ("policy/v1beta1/podsecuritypolicies=true", True),
        ("policy/v1beta1,policy/v1beta1/podsecuritypolicies=false", False),
        ("api/beta", True),
        ("api/all=true", True),
    ],
)
def test_kind_off_by_default_is_served_when_a_key_asks_for_it(text: str, on: bool) -> None:
    catalog = built_in(KUBERNETES, enabled=parse_enablement(text))
    assert (catalog.find("policy", "v1beta1", "podsecuritypolicies") is not None) is on
