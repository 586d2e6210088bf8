"""Expressions over claims and users: what they see in each version, what they make, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.access.authentication.claim_expressions import (
    CLAIMS,
    USER,
    Compiler,
    Expressions,
    InvalidExpression,
)
from rewound.actors.access.authentication.oidc_claims import ClaimRules
from rewound.actors.access.token_json import BadClaims
from rewound.actors.identity import User
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.time_limit import NeedsThread, run_limited
from rewound.actors.versions.features import release_of

NEWEST, OLD = release_of("1.36").features, release_of("1.30").features
CLAIMED = {
    "sub": "alice",
    "groups": ["devs", "", "ops"],
    "number": 5,
    "foo.bar": "dotted",
    "none": None,
    "nested": {"a.b": "inside", "list": [{"deep": "d"}], "names": ["x", "y"]},
}


def user(features: frozenset[str] = NEWEST, **mapped: str) -> User:
    compiler = Compiler(KUBERNETES, features)
    made: dict[str, Any] = {name: compiler.compile(CLAIMS, text) for name, text in mapped.items()}
    made.setdefault("username", compiler.compile(CLAIMS, "claims.sub"))
    return ClaimRules("", (), expressions=Expressions(features=features, **made)).user(CLAIMED)


def test_expressions_make_the_user() -> None:
    found = user(username="claims.sub + '@example.com'", groups="claims.groups", uid="string(claims.number)")
    assert found == User("alice@example.com", "5", ("devs", "ops"))
    assert user(groups="claims.nested.names.map(one, 'team:' + one)").groups == ("team:x", "team:y")
    assert user(groups="claims.sub").groups == ("alice",)
    assert user(groups="claims.none").groups == user(groups="''").groups == ()
    assert user(username="claims.nested.list[0].deep").name == "d"


@pytest.mark.parametrize(
    ("text", "newest", "old"),
    [
        ("type(claims.number) == double ? 'double' : 'int'", "double", "int"),
        ("claims.foo__dot__bar", "dotted", "no such key: foo__dot__bar"),
        ("claims.nested.a__dot__b", "inside", "no such key: a__dot__b"),
        ("claims['foo.bar']", "dotted", "dotted"),
        ("claims.exists(one, one == 'alice') ? 'values' : 'names'", "values", "names"),
        ("claims.nested == {'a': 1} ? 'same' : 'other'", "other", "other"),
        ("'sub' in claims && size(claims) == 6 ? 'yes' : 'no'", "yes", "yes"),
        ("has(claims.missing) ? 'yes' : 'no'", "no", "no"),
    ],
)
def test_claims_of_each_version(text: str, newest: str, old: str) -> None:
    for features, wanted in ((NEWEST, newest), (OLD, old)):
        try:
            found = user(features, username=text).name
        except BadClaims as error:
            found = str(error).removeprefix(
                f"error evaluating username claim expression: expression '{text}' resulted in error: "
            )
        assert found == wanted


@pytest.mark.parametrize(
    ("mapped", "why"),
    [
        (
            {"username": "claims.number"},
            "error evaluating username claim expression: username claim expression must ",
        ),
        ({"username": "''"}, "empty username via CEL expression is not allowed"),
        (
            {"uid": "claims.number"},
            "error evaluating uid claim expression: uid claim expression must return a string",
        ),
        (
            {"groups": "[claims.number]"},
            "error evaluating group claim expression: expression must return a string or",
        ),
        (
            {"groups": "claims.sub.split(',')"},
            "error evaluating group claim expression: expression must return a string or",
        ),
        (
            {"groups": "claims.missing"},
            "error evaluating group claim expression: expression 'claims.missing' resulted",
        ),
    ],
)
def test_values_of_other_types_are_refused(mapped: dict[str, str], why: str) -> None:
    with pytest.raises(BadClaims) as error:
        user(**mapped)
    assert str(error.value).startswith(why)


def test_rules_over_claims_and_user() -> None:
    compiler = Compiler(KUBERNETES, NEWEST)

    def made(claim: str, user: str) -> User:
        expressions = Expressions(
            features=NEWEST,
            username=compiler.compile(CLAIMS, "claims.sub"),
            extra=(("example.org/x", compiler.compile(CLAIMS, "['v', '']")),),
            claim_rules=((compiler.compile(CLAIMS, claim, condition=True), "not this claim"),),
            user_rules=((compiler.compile(USER, user, condition=True), "not this user"),),
        )
        return ClaimRules("", (), id_key="id", expressions=expressions).user({**CLAIMED, "jti": "t"})

    fine = "!user.username.startsWith('system:') && user.extra['example.org/x'] == ['v'] && user.uid == ''"
    extra = (("example.org/x", ("v",)), ("id", ("JTI=t",)))
    assert made("claims.number < 6.0", fine) == User("alice", extra=extra)
    with pytest.raises(
        BadClaims, match="claim validation expression: validation expression 'false' failed: not this c"
    ):
        made("false", fine)
    with pytest.raises(
        BadClaims, match="user info validation rule: validation expression 'false' failed: not this us"
    ):
        made("true", "false")


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        (CLAIMS, "claims.a", "must evaluate to bool"),
        (CLAIMS, "claims.all(", "compilation failed: ERROR: <input>:1:12: Syntax error"),
        (CLAIMS, "user.username == ''", "undeclared reference to 'user'"),
        (CLAIMS, "claims.list.all(one, true)", "expression of type 'any' cannot be range of a comprehension"),
        (USER, "user.name == ''", "undefined field 'name'"),
        (USER, "claims.sub == ''", "undeclared reference to 'claims'"),
    ],
)
def test_wrong_expressions_are_not_compiled(variable: str, text: str, why: str) -> None:
    with pytest.raises(InvalidExpression) as error:
        Compiler(KUBERNETES, NEWEST).compile(variable, text, condition=True)
    assert why in str(error.value)


def test_expensive_expression_leaves_the_loop_and_ends_at_its_cost_limit() -> None:
    text = "claims.n.l.all(a, claims.n.l.all(b, claims.n.l.all(c, a + b + c >= 0.0))) ? 'x' : 'y'"
    compiled = Compiler(KUBERNETES, NEWEST).compile(CLAIMS, text)
    given = Expressions(features=NEWEST, username=compiled).of({"n": {"l": list(range(300))}})
    with pytest.raises(NeedsThread):
        given.name()
    with pytest.raises(BadClaims, match="operation cancelled: actual cost limit exceeded"):
        run_limited(given.name)
