"""Expressions of policies and webhooks are compiled with their write; those that an object already has may use more."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.admission_expressions import Compiler
from rewound.actors.kinds.admissionregistration import declare
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect_with
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import choose_release

RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "operations": ["CREATE"],
    "scope": "*",
}
TO_1_34 = "lists.range(3) == [0, 1, 2]"  # which 1.34 knows, but lets only stored expressions use


def policy(validation: Object, **spec: Any) -> Object:
    resources = {
        "resourceRules": [RULE],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": resources,
        "validations": [{"expression": "true", **validation}],
        **spec,
    }
    return {"metadata": {"name": "p"}, "spec": spec}


def problems(new: Object, old: Object | None = None, version: str = "1.36") -> dict[str, str]:
    features = choose_release(version).features
    found = next(one for one in declare(KUBERNETES, features) if is_policy(one))
    strategy = found.strategy
    assert strategy.validate_create is not None and strategy.validate_update is not None
    if old is None:
        errors = run_limited(collect_with, features, strategy.validate_create, new)
    else:
        errors = run_limited(collect_with, features, strategy.validate_update, new, old)
    return {one.field: one.message for one in errors}


def is_policy(one: Definition) -> bool:
    return one.kind == "ValidatingAdmissionPolicy" and one.version == "v1"


@pytest.mark.parametrize(
    ("validation", "text"),
    [
        ({"expression": "quantity('1').isGreaterThan(1)"}, "found no matching overload for 'isGreaterThan'"),
        (
            {"expression": "authorizer.path('/').check('get')"},
            "must evaluate to bool but got kubernetes.auth",
        ),
        ({"expression": "optional.of(timestamp(1))"}, "got optional_type(google.protobuf.Timestamp)"),
        ({"expression": "nothing.of(1)"}, "undeclared reference to 'nothing'"),
        ({"expression": "'a'.find('[') == ''"}, "Internal error: program instantiation failed: "),
        ({"messageExpression": "authorizer.path('/').check('get').reason()"}, "reference to 'authorizer'"),
        ({"messageExpression": "params.x"}, "undeclared reference to 'params'"),
    ],
)
def test_problems(validation: Object, text: str) -> None:
    [found] = problems(policy(validation)).values()
    assert text in found


@pytest.mark.parametrize(
    "validation",
    [
        {"expression": "authorizer.requestResource.check('get').allowed() && object.?x.orValue(1) == 1"},
        {"expression": "ip('::1').family() == 6 && sets.contains([1], [1]) && '%s'.format(['a']) == 'a'"},
        {"expression": "[1, 2].all(i, v, i < v)", "messageExpression": "string(params.x) + variables.a"},
    ],
)
def test_valid_expressions(validation: Object) -> None:
    variables = [{"name": "a", "expression": "string(params.y)"}]
    new = policy(validation, paramKind={"apiVersion": "v1", "kind": "ConfigMap"}, variables=variables)
    assert not problems(new)


def test_stored_expressions_may_use_more_than_new_ones() -> None:
    new = policy({"expression": TO_1_34})
    assert "undeclared reference" in problems(new, version="1.34")["spec.validations[0].expression"]
    assert not problems(new, policy({"expression": TO_1_34}), version="1.34")
    assert not problems(new, version="1.35")
    as_message = policy({"messageExpression": f"string({TO_1_34})"})
    assert problems(as_message, policy({"expression": TO_1_34}), version="1.34")
    assert not problems(as_message, as_message, version="1.34")


def test_texts_about_messages() -> None:
    field, new = "spec.validations[0].message", policy({"message": "a\nb"})
    assert problems(new)[field].endswith(": must not contain line breaks")
    assert problems(new, version="1.33")[field].endswith(": message must not contain line breaks")


@pytest.mark.parametrize(("version", "typed"), [("1.28", False), ("1.29", True)])
def test_variables_have_types_since_1_29(version: str, typed: bool) -> None:
    compiler = Compiler(KUBERNETES, choose_release(version).features, has_params=False, variables=True)
    assert not compiler.declare("a", "1")
    assert bool(compiler.problem("variables.a == 'x'", ("bool",))) is typed
