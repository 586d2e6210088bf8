"""Policies by expression: their versions, what they refuse, and what their expressions may use."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions

POLICIES, MUTATING = "validatingadmissionpolicies", "mutatingadmissionpolicies"
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]


@pytest.fixture(scope="module")
def newest() -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release("1.36"), Enablement(every=True)))


def policy(**spec: Any) -> dict[str, Any]:
    validations = {} if "mutations" in spec else {"validations": [{"expression": "true"}]}
    constraints = {"matchConstraints": {"resourceRules": RULES}}
    return {"metadata": {"name": "a"}, "spec": {**constraints, **validations, **spec}}


def served(version: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in built_in(
        KUBERNETES, choose_release(version, "AllAlpha=true"), Enablement(every=True)
    ).definitions:
        found.setdefault(one.plural, set()).add(one.version)
    return {plural: found.get(plural, set()) for plural in (POLICIES, MUTATING)}


def test_versions_of_policies() -> None:
    assert served("1.25") == {POLICIES: set(), MUTATING: set()}
    assert served("1.27") == {POLICIES: {"v1alpha1"}, MUTATING: set()}
    assert served("1.30") == {POLICIES: {"v1", "v1beta1", "v1alpha1"}, MUTATING: set()}
    assert served("1.36") == {POLICIES: {"v1"}, MUTATING: {"v1", "v1beta1", "v1alpha1"}}


def test_defaults(newest: Definitions) -> None:
    spec = newest.stored(POLICIES, policy())["spec"]
    assert spec["failurePolicy"] == "Fail"
    rule = {**RULES[0], "scope": "*"}
    constraints = {"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"}
    assert spec["matchConstraints"] == {**constraints, "resourceRules": [rule]}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("object.metadata.name == 'x' && request.userInfo.groups.exists(one, one == 'y')", ""),
        ("namespaceObject.metadata.labels['a'] == 'b'", ""),
        ("authorizer.group('').resource('pods').check('get').allowed()", ""),
        ("object.?spec.orValue(1) == 1", ""),
        ("quantity('1') == quantity('2')", ""),
        ("object", "must evaluate to bool but got dyn"),
        ("request.nope == 1", "compilation failed: ERROR: <input>:1:8: undefined field 'nope'"),
        (
            "params.x",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        ),
    ],
)
def test_expressions(newest: Definitions, expression: str, message: str) -> None:
    causes = newest.create_causes(POLICIES, policy(validations=[{"expression": expression}]))
    if not message:
        assert causes == []
    else:
        ((field, text),) = causes
        assert field == "spec.validations[0].expression" and message in text


def test_variables_have_the_types_of_their_expressions(newest: Definitions) -> None:
    variables = [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 1"}]
    valid = policy(variables=variables, validations=[{"expression": "variables.b == 2"}])
    assert newest.create_causes(POLICIES, valid) == []
    wrong = policy(variables=variables, validations=[{"expression": "variables.b == 'x'"}])
    ((_, text),) = newest.create_causes(POLICIES, wrong)
    assert "found no matching overload for '_==_' applied to '(int, string)'" in text


def test_unchanged_conditions_are_not_compiled_again(newest: Definitions) -> None:
    before = policy(matchConditions=[{"name": "x", "expression": "1 +"}])
    _, causes = newest.update(POLICIES, before, before)
    assert causes == []


def test_mutations(newest: Definitions) -> None:
    apply = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
    valid = policy(mutations=[apply], reinvocationPolicy="Never")
    assert newest.create_causes(MUTATING, valid) == []
    both = {**apply, "jsonPatch": {"expression": "[]"}}
    deletes = [{**RULES[0], "operations": ["DELETE"]}]
    wrong = policy(mutations=[both], reinvocationPolicy="Never", matchConstraints={"resourceRules": deletes})
    assert newest.create_causes(MUTATING, wrong) == [
        (
            "spec.matchConstraints.resourceRules.operations",
            'Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"',
        ),
        (
            "spec.mutations[0].jsonPatch",
            'Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration',
        ),
    ]
