"""Match conditions of authorization webhooks: what they see of a request, their errors, and their limit."""

from __future__ import annotations

from collections.abc import Sequence

from rewound.actors.access.authorization.match_conditions import (
    MatchConditions,
    Matched,
    compile_conditions,
    environment_of,
)
from rewound.actors.access.authorize import Attributes
from rewound.actors.identity import User
from rewound.actors.kinds.validation import FieldErrors
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.cases import cases

JANE = User("jane", "42", ("devs", "system:authenticated"), (("scope", ("a",)),))
LISTED = Attributes(
    JANE, "list", "apps", "v1", "pods", "", "x", "", field_selector="a!=b", label_selector="k,!z"
)
PATH = Attributes(JANE, "get", path="/metrics", is_resource=False)


def compiled(texts: Sequence[str], version: str = "1.36") -> tuple[MatchConditions | None, list[str]]:
    features = choose_release(version).features
    errors = FieldErrors(features)
    made = compile_conditions(errors, "conditions", texts, environment_of(KUBERNETES, features))
    return made, [f"{one.field}: {one.message}" for one in errors.found]


def conditions(*texts: str) -> MatchConditions:
    made, errors = compiled(texts)
    assert made is not None and errors == []
    return made


@cases(
    ("text", "of_list", "of_path"),
    [
        ("request.user == 'jane' && request.uid == '42' && 'devs' in request.groups", True, True),
        ("request.extra['scope'] == ['a'] && !('other' in request.extra)", True, True),
        ("has(request.resourceAttributes)", True, False),
        (
            "has(request.nonResourceAttributes) && request.nonResourceAttributes.path == '/metrics'",
            False,
            True,
        ),
        ("request.?resourceAttributes.?namespace.orValue('none') == 'x'", True, False),
        ("request.?resourceAttributes.verb.orValue('') == 'list'", True, False),
        ("!has(request.resourceAttributes) || request.resourceAttributes.name == ''", True, True),
        (
            "request.?resourceAttributes.fieldSelector.requirements.orValue([])"
            ".exists(r, r.key == 'a' && r.operator == 'NotIn' && r.values == ['b'])",
            True,
            False,
        ),
        (
            "request.?resourceAttributes.labelSelector.requirements.orValue([])"
            ".map(r, r.operator + string(size(r.values))) == ['Exists0', 'DoesNotExist0']",
            True,
            False,
        ),
        ("request.?resourceAttributes.?labelSelector.?rawSelector.hasValue()", False, False),
    ],
)
def test_what_conditions_see(text: str, of_list: bool, of_path: bool) -> None:
    assert conditions(text).match(LISTED) == Matched(excluded=not of_list)
    assert conditions(text).match(PATH) == Matched(excluded=not of_path)


def test_a_false_condition_decides_before_errors_and_all_errors_are_reported() -> None:
    name = "request.resourceAttributes.name == 'a'"
    group = "request.resourceAttributes.group == 'b'"
    texts = [
        f"cel evaluation error: expression '{one}' resulted in error: no such key: resourceAttributes"
        for one in (name, group)
    ]
    assert conditions(name, "false", group).match(PATH) == Matched(True, texts[0])
    assert conditions(name, "true", group).match(PATH) == Matched(False, f"[{texts[0]}, {texts[1]}]")


@cases(
    ("version", "texts", "expected"),
    [
        (
            "1.36",
            ["true", " ", "true"],
            ["[1].expression: Required value", '[2].expression: Duplicate value: "true"'],
        ),
        ("1.36", ["true"] * 65, [": Too many: 65: must have at most 64 items"]),
        (
            "1.36",
            ["request.user", "null"],
            [
                '[0].expression: Invalid value: "request.user": must evaluate to bool but got string',
                '[1].expression: Invalid value: "null": must evaluate to bool but got null_type',
            ],
        ),
        (
            "1.30",
            ["request.resourceAttributes.labelSelector.rawSelector == ''"],
            [
                "[0].expression: Invalid value: \"request.resourceAttributes.labelSelector.rawSelector == ''\": "
                "compilation failed: ERROR: <input>:1:27: undefined field 'labelSelector'\n"
                " | request.resourceAttributes.labelSelector.rawSelector == ''\n"
                " | ..........................^"
            ],
        ),
        (
            "1.36",
            ["request.user.find('[a') == ''"],
            [
                "[0].expression: Internal error: program instantiation failed: "
                "error parsing regexp: missing closing ]: `[a`"
            ],
        ),
    ],
)
def test_conditions_that_do_not_compile(version: str, texts: list[str], expected: list[str]) -> None:
    assert compiled(texts, version)[1] == [f"conditions{one}" for one in expected]


async def test_a_long_condition_ends_at_its_cost_limit_in_a_thread() -> None:
    made = conditions("[1, 2, 3, 4, 5, 6].all(i, !request.user.contains('zzzzzzzzzz' + string(i)))")
    pending = made.match(Attributes(User("x" * 2_000_000), "get"))
    assert not isinstance(pending, Matched)
    assert (await pending).errors.endswith("operation cancelled: actual cost limit exceeded")


def test_conditions_are_equal_by_their_texts() -> None:
    assert conditions("true") == conditions("true") != conditions("false")
    assert hash(conditions("true")) == hash(conditions("true"))
