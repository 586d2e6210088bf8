"""DeleteOptions from a body or from the query."""

from collections.abc import Mapping
from typing import Any

import pytest

from actors.errors import BadRequest, Invalid
from actors.messages import DeleteOptions
from actors.names import CLUSTER
from actors.resource.options import delete_options


def asked(body: Mapping[str, Any] | None = None, **query: list[str]) -> DeleteOptions:
    return delete_options(CLUSTER, body, query)


def causes(body: Mapping[str, Any] | None = None, **query: list[str]) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        asked(body, **query)
    assert (caught.value.group, caught.value.kind) == ("meta.cluster.io", "DeleteOptions")
    return [(cause.reason, cause.field) for cause in caught.value.causes]


def test_nothing_asked_for() -> None:
    assert asked() == asked({}) == DeleteOptions()


def test_everything_in_a_body() -> None:
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    assert asked(body) == DeleteOptions(0, "Foreground", "u", "7", True)


def test_everything_in_the_query() -> None:
    options = asked(
        gracePeriodSeconds=["30"], propagationPolicy=["Background"], dryRun=["All", "All"], uid=["u"]
    )
    assert options == DeleteOptions(30, "Background", "u", None, True)


def test_a_body_hides_the_query() -> None:
    assert asked({}, gracePeriodSeconds=["30"], propagationPolicy=["Sideways"]) == DeleteOptions()


def test_a_dry_run_is_never_overlooked() -> None:
    assert asked({}, dryRun=["All"]).dry_run
    assert asked({"dryRun": ["All"]}, dryRun=[""]).dry_run
    assert not asked({}, dryRun=[""]).dry_run


@pytest.mark.parametrize("body", [{"kind": "DeleteOptions", "apiVersion": "apps/v1"}, {"kind": ""}, {"x": 1}])
def test_type_and_unknown_fields_do_not_matter(body: dict[str, Any]) -> None:
    assert asked(body) == DeleteOptions()


def test_a_body_of_another_kind() -> None:
    with pytest.raises(BadRequest, match=r'must be of kind DeleteOptions, not "ConfigMap"'):
        asked({"kind": "ConfigMap", "apiVersion": "v1"})


@pytest.mark.parametrize("policy", ["Orphan", "Background", "Foreground"])
def test_the_three_propagation_policies(policy: str) -> None:
    assert asked({"propagationPolicy": policy}).propagation_policy == policy
    assert asked(propagationPolicy=[policy]).propagation_policy == policy


def test_another_propagation_policy() -> None:
    assert causes({"propagationPolicy": "Sideways"}) == [("FieldValueNotSupported", "propagationPolicy")]
    assert causes(propagationPolicy=[""]) == [("FieldValueNotSupported", "propagationPolicy")]


@pytest.mark.parametrize(("sent", "policy"), [(True, "Orphan"), (False, "Background")])
def test_the_old_spelling_of_a_policy(sent: bool, policy: str) -> None:
    assert asked({"orphanDependents": sent}).propagation_policy == policy
    assert asked(orphanDependents=[str(sent).lower()]).propagation_policy == policy


def test_the_old_and_the_new_spelling_together() -> None:
    body = {"propagationPolicy": "Orphan", "orphanDependents": True}
    assert causes(body) == [("FieldValueInvalid", "propagationPolicy")]


def test_other_values_of_dry_run() -> None:
    assert causes({"dryRun": ["Some"]}) == [("FieldValueNotSupported", "dryRun")]
    assert causes({}, dryRun=["Some"]) == [("FieldValueNotSupported", "dryRun")]


@pytest.mark.parametrize("text", ["", "soon", "1.5", "9223372036854775808", "1" * 5000])
def test_a_grace_period_that_is_no_integer(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^gracePeriodSeconds: Invalid value: "):
        asked(gracePeriodSeconds=[text])


@pytest.mark.parametrize(
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
        ({"dryRun": ["All", None]}, r"dryRun\[1\]"),
        ({"apiVersion": 1}, "apiVersion"),
    ],
)
def test_values_of_the_wrong_type(body: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest, match=f"^DeleteOptions cannot be decoded: {field} must be "):
        asked(body)


def test_null_counts_as_absent() -> None:
    names = ("kind", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "preconditions", "dryRun")
    assert asked(dict.fromkeys(names)) == DeleteOptions()
