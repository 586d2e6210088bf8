"""Files of rules: what is valid, and errors that name the field and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.recording.rules.built_in import BUILT_IN, BuiltIn
from rewound.recording.rules.file import BadRules, default_rules, parse_rules, read_rules
from tests.cases import cases
from tests.recording.rules.story import HEADER, rules_of


def test_without_a_file_all_built_in_rules_are_on() -> None:
    found = default_rules()
    assert [rule.name for rule in found.rules] == list(BUILT_IN)
    assert found.off == ()


def test_parameters_of_built_in_rules() -> None:
    text = "builtIn:\n  fights: {turns: 6, window: 1h, severity: critical, exceptKinds: [pods]}\n"
    text += (
        "  hot-loops: {enabled: false}\n  mass-deletes: {rateLimit: {alerts: 1, per: 1d}, resolveAfter: 2h}\n"
    )
    rules = {rule.name: rule for rule in rules_of(text)}
    assert "hot-loops" not in rules
    fights = rules["fights"]
    assert isinstance(fights.of, BuiltIn)
    assert fights.of.given == {"turns": 6, "window": 3600_000_000, "exceptKinds": ("pods",)}
    assert (fights.severity, fights.resolve_after) == ("critical", 3600_000_000)
    assert rules["mass-deletes"].limit.alerts == 1
    assert rules["mass-deletes"].resolve_after == 7200_000_000


VALID = "name: a, expression: 'true'"


@cases(
    "text, error",
    [
        ("rules: 7", "rules: must be a list, not '7'"),
        ("rules: [7]", "rules[0]: must be a map, not '7'"),
        ("rules: [{}]", "rules[0].name: is missing"),
        ("rules: [{name: A b}]", "rules[0].name: 'A b' must have at most 63 lower-case letters"),
        ("rules: [{name: a}]", "rules[0] (a).expression: is missing"),
        ("rules: [{name: a, expression: 7}]", "rules[0] (a).expression: must be a text, not '7'"),
        (
            "rules: [{name: a, expression: event.knd}]",
            "rules[0] (a).expression: ERROR: <input>:1:6: undefined field",
        ),
        ("rules: [{name: a, expression: event.kind}]", "is of type string, and must be true or false"),
        ("rules: [{name: a, expression: 'fights(event)'}]", "fights(): write fights(event,"),
        ("rules: [{name: a, expression: 'fights(event, \"1y\")'}]", "fights(): '1y' is not a duration"),
        (
            "rules: [{name: a, expression: 'fights(event, \"30d\")'}]",
            "fights(): the window '30d' must be from 1s to 7d",
        ),
        ("rules: [{name: a, expression: 'fights(event, \"5m\", 1)'}]", "TURNS must be a number from 2 to 60"),
        ("rules: [{name: a, expression: 'count(1, \"5m\") > 1'}]", "CONDITION is of type int"),
        (
            "rules: [{name: a, expression: 'count(event, event.user, \"5m\") > 1'}]",
            "count(): write count(event",
        ),
        (
            "rules: [{name: a, expression: 'count(event, event.user) > 1'}]",
            'the window must be a text like "5m"',
        ),
        (
            "rules: [{name: a, expression: '[1].exists(x, count(x == 1, \"5m\") > 1)'}]",
            "each of its arguments is an expression of its own: ERROR: <input>:1:21: undeclared reference to 'x'",
        ),
        (
            'rules: [{name: a, expression: \'count(count(event, "1m") > 1, "1m") > 1\'}]',
            "count(): has a function of a window in it",
        ),
        (f"rules: [{{{VALID}}}, {{{VALID}}}]", "rules[1].name: rules[0] is called 'a' too; rename one"),
        (
            "rules: [{name: fights, expression: 'true'}]",
            "rules[0].name: a built-in rule is called 'fights'; choose",
        ),
        (f"rules: [{{{VALID}, severity: bad}}]", "severity: must be info, warning or critical, not 'bad'"),
        (f"rules: [{{{VALID}, for: 5}}]", "rules[0] (a).for: must be a text, not '5'"),
        (f"rules: [{{{VALID}, for: soon}}]", "rules[0] (a).for: 'soon' is not a duration"),
        (f"rules: [{{{VALID}, fro: 5m}}]", "rules[0].fro: is not known; did you mean for?"),
        (
            f"rules: [{{{VALID}, groupBy: [event.usr]}}]",
            "groupBy[0]: ERROR: <input>:1:6: undefined field 'usr'",
        ),
        (f"rules: [{{{VALID}, groupBy: event.user}}]", "groupBy: must be a list"),
        (f"rules: [{{{VALID}, message: 'by {{{{ event.usr }}}}'}}]", "message: {{ event.usr }}: ERROR"),
        (f"rules: [{{{VALID}, message: 'by {{{{ event.user'}}]", "message: a {{ has no }}"),
        (
            f"rules: [{{{VALID}, message: '{{{{ count(event, \"1m\") }}}}'}}]",
            "has a function of a window, which only `expression` may use",
        ),
        (f"rules: [{{{VALID}, rateLimit: {{alerts: 1}}}}]", "rateLimit.per: is missing"),
        (
            f"rules: [{{{VALID}, rateLimit: {{alerts: 0, per: 1h}}}}]",
            "must be a number from 1 to 1000000, not 0",
        ),
        ("builtIn: {figths: {}}", "builtIn.figths: is not known; did you mean fights?"),
        ("builtIn: {fights: {turn: 1}}", "builtIn.fights.turn: is not known; did you mean turns?"),
        ("builtIn: {fights: {turns: 1}}", "builtIn.fights.turns: must be a number from 2 to 1000000, not 1"),
        ("builtIn: {fights: {turns: true}}", "builtIn.fights.turns: must be a number"),
        ("builtIn: {fights: {enabled: 'no'}}", "builtIn.fights.enabled: must be true or false, not 'no'"),
        ("builtIn: {fights: {window: 0s}}", "builtIn.fights.window: the window '0s' must be from 1s to 7d"),
        ("builtIn: {fights: {exceptKinds: [1]}}", "builtIn.fights.exceptKinds[0]: must be a text"),
        ("rulez: []", "rulez: is not known; did you mean rules?"),
        ("a: [", "rules.yaml is no YAML"),
        (
            f'rules: [{{name: a, expression: "{"!" * 5000}true"}}]',
            "has 5,004 characters; at most 4,000 are allowed",
        ),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(BadRules) as raised:
        rules_of(text)
    assert error in str(raised.value)
    assert str(raised.value).startswith("rules.yaml")


NESTED = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 9))


@cases(
    "text, error",
    [
        ("", "the file: must be a map, not 'None'"),
        ("[]", "the file: must be a map"),
        ("apiVersion: v1\nkind: Rules\n", "apiVersion: must be rewound.cluster.io/v1alpha1, not 'v1'"),
        ("apiVersion: rewound.cluster.io/v1alpha1\nkind: Rule\n", "kind: must be Rules, not 'Rule'"),
        ("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + NESTED, "is no YAML"),
    ],
)
def test_files_that_are_none(text: str, error: str) -> None:
    with pytest.raises(BadRules) as raised:
        parse_rules(text.encode(), "rules.yaml")
    assert error in str(raised.value)


def test_large_files(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(HEADER + b"#" * (1 << 20))
    with pytest.raises(BadRules, match="has more than 1 MiB; divide it"):
        read_rules(path)
    rules = ", ".join(f"{{name: r{at}, expression: 'true'}}" for at in range(201))
    with pytest.raises(BadRules, match=r"rules: has 201 items; at most 200 are allowed"):
        rules_of(f"rules: [{rules}]")
