"""DeleteOptions from the body or from the query."""

from collections.abc import Mapping
from typing import Any

import pytest

from rewound.actors.errors import BadRequest, Invalid
from rewound.actors.messages import DeleteOptions
from rewound.actors.names import CLUSTER
from rewound.gateway.pipeline.options import delete_options
from tests.cases import cases


def parsed(body: Mapping[str, Any] | None = None, **query: list[str]) -> DeleteOptions:
    return delete_options(CLUSTER, body, query)


def causes(body: Mapping[str, Any] | None = None, **query: list[str]) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        parsed(body, **query)
    assert (caught.value.group, caught.value.kind) == ("meta.cluster.io", "DeleteOptions")
    return [(cause.reason, cause.field) for cause in caught.value.causes]


def test_delete_without_options_has_defaults() -> None:
    assert parsed() == parsed({}) == DeleteOptions()


def test_all_options_are_read_from_the_body() -> None:
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    assert parsed(body) == DeleteOptions(0, "Foreground", "u", "7", True)


def test_all_options_are_read_from_the_query() -> None:
    options = parsed(
        gracePeriodSeconds=["30"], propagationPolicy=["Background"], dryRun=["All", "All"], uid=["u"]
    )
    assert options == DeleteOptions(30, "Background", "u", None, True)


def test_body_hides_the_query() -> None:
    assert parsed({}, gracePeriodSeconds=["30"], propagationPolicy=["Sideways"]) == DeleteOptions()


def test_dry_run_in_the_query_counts_despite_a_body() -> None:
    assert parsed({}, dryRun=["All"]).dry_run
    assert parsed({"dryRun": ["All"]}, dryRun=[""]).dry_run
    assert not parsed({}, dryRun=[""]).dry_run


@cases("body", [{"kind": "DeleteOptions", "apiVersion": "apps/v1"}, {"kind": ""}, {"x": 1}])
def test_type_and_unknown_fields_are_ignored(body: dict[str, Any]) -> None:
    assert parsed(body) == DeleteOptions()


def test_body_of_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match=r'^no kind "ConfigMap" is registered for version "v1" in scheme'):
        parsed({"kind": "ConfigMap", "apiVersion": "v1"})


@cases("policy", ["Orphan", "Background", "Foreground"])
def test_propagation_policy_is_accepted(policy: str) -> None:
    assert parsed({"propagationPolicy": policy}).propagation_policy == policy
    assert parsed(propagationPolicy=[policy]).propagation_policy == policy


def test_unknown_propagation_policy_is_refused() -> None:
    assert causes({"propagationPolicy": "Sideways"}) == [("FieldValueNotSupported", "propagationPolicy")]
    assert causes(propagationPolicy=[""]) == [("FieldValueNotSupported", "propagationPolicy")]


@pytest.mark.parametrize(("sent", "policy"), [(True, "Orphan"), (False, "Background")])
def test_orphan_dependents_sets_the_policy(sent: bool, policy: str) -> None:
    assert parsed({"orphanDependents": sent}).propagation_policy == policy
    assert parsed(orphanDependents=[str(sent).lower()]).propagation_policy == policy


def test_orphan_dependents_and_propagation_policy_together_are_refused() -> None:
    body = {"propagationPolicy": "Orphan", "orphanDependents": True}
    assert causes(body) == [("FieldValueInvalid", "propagationPolicy")]


def test_unknown_dry_run_value_is_refused() -> None:
    assert causes({"dryRun": ["Some"]}) == [("FieldValueNotSupported", "dryRun")]
    assert causes({}, dryRun=["Some"]) == [("FieldValueNotSupported", "dryRun")]


@cases("text", ["", "soon", "1.5", "9223372036854775808", "1" * 5000])
def test_grace_period_that_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^gracePeriodSeconds: Invalid value: "):
        parsed(gracePeriodSeconds=[text])


@cases(
    ("body", "field"),
    [
        ({"gracePeriodSeconds": "0"}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": 1.5}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": True}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": 1 << 63}, "gracePeriodSeconds"),
        ({"propagationPolicy": 1}, "propagationPolicy"),
        ({"orphanDependents": "true"}, "orphanDependents"),
        ({"orphanDependents": 1}, "orphanDependents"),
        ({"preconditions": []}, "preconditions"),
        ({"preconditions": {"uid": 5}}, r"preconditions\.uid"),
        ({"preconditions": {"resourceVersion": 5}}, r"preconditions\.resourceVersion"),
        ({"dryRun": "All"}, "dryRun"),
        ({"dryRun": ["All", 5]}, "dryRun"),
        ({"apiVersion": 1}, "apiVersion"),
    ],
)
def test_value_of_the_wrong_type_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(
        BadRequest, match=rf"^json: cannot unmarshal .+ into Go struct field \w+\.{field} of type "
    ):
        parsed(body)


def test_null_counts_as_absent() -> None:
    names = ("kind", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "preconditions", "dryRun")
    assert parsed(dict.fromkeys(names)) == DeleteOptions()
