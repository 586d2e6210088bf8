"""Expressions are parsed into the same trees as by cel-go, and invalid ones give the same messages."""

from __future__ import annotations

from rewound.actors.cel.parser import parse
from rewound.actors.cel.recovery import explain
from rewound.actors.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Expression,
    Identifier,
    ListLiteral,
    MapLiteral,
    MessageLiteral,
    Node,
    Problems,
    Select,
)
from tests.actors.cel.evaluating import LANGUAGE
from tests.cases import cases


def parsed(source: str) -> Expression:
    expression = parse(source, LANGUAGE)
    assert isinstance(expression, Expression), str(expression)
    return expression


def shown(node: Node) -> str:
    """A tree in one line, with calls written as functions."""
    if isinstance(node, Constant):
        return repr(node.value)
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Select):
        return f"{'has ' if node.test_only else ''}{shown(node.operand)}.{node.field}"
    if isinstance(node, Call):
        target = f"{shown(node.target)}." if node.target else ""
        return f"{target}{node.function}({', '.join(map(shown, node.arguments))})"
    if isinstance(node, ListLiteral):
        return f"[{', '.join(map(shown, node.items))}]"
    if isinstance(node, MapLiteral):
        return "{" + ", ".join(f"{shown(key)}: {shown(value)}" for key, value in node.entries) + "}"
    if isinstance(node, MessageLiteral):
        return node.name + "{" + ", ".join(f"{name}: {shown(value)}" for name, value in node.fields) + "}"
    assert isinstance(node, Comprehension)
    parts = (node.range, node.initial, node.condition, node.step, node.result)
    return f"fold({node.variable}, {node.accumulator}; {'; '.join(map(shown, parts))})"


@cases(
    ("source", "tree"),
    [
        ("a + b * c - d", "_-_(_+_(a, _*_(b, c)), d)"),
        ("a == b != c", "_!=_(_==_(a, b), c)"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("!!a", "a"),
        ("---a", "-_(a)"),
        ("-1 - -1", "_-_(-1, -1)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0x1F + 1e2 + .5 + 7u", "_+_(_+_(_+_(31, 100.0), 0.5), 7)"),
        ("a.b[0].c(d)", "_[_](a.b, 0).c(d)"),
        (".a.b", ".a.b"),
        ("[1, 2,]", "[1, 2]"),
        ("[,] == {,}", "_==_([], {})"),
        ("{'a': 1, 'b': 2,}", "{'a': 1, 'b': 2}"),
        ("a.B{x: 1,}", "a.B{x: 1}"),
        ("has(a.b)", "has a.b"),
        ("x // the rest\n in y", "@in(x, y)"),
        (r"'\x41\u00e9\U0001F600\101\n\'' + r'\n' + '''a'b'''", r"""_+_(_+_("Aé😀A\n'", '\\n'), "a'b")"""),
        (r"b'\xff\101é' + bR'\x'", r"_+_(b'\xffA\xc3\xa9', b'\\x')"),
        ("'''a\r\nb\rc'''", r"'a\nb\nc'"),
        (
            "r.all(x, p)",
            "fold(x, __result__; r; True; @not_strictly_false(__result__); _&&_(__result__, p); __result__)",
        ),
        (
            "r.exists(x, p)",
            "fold(x, __result__; r; False; @not_strictly_false(!_(__result__)); _||_(__result__, p); __result__)",
        ),
        (
            "r.exists_one(x, p)",
            "fold(x, __result__; r; 0; True; _?_:_(p, _+_(__result__, 1), __result__); _==_(__result__, 1))",
        ),
        ("r.map(x, f)", "fold(x, __result__; r; []; True; _+_(__result__, [f]); __result__)"),
        (
            "r.map(x, p, f)",
            "fold(x, __result__; r; []; True; _?_:_(p, _+_(__result__, [f]), __result__); __result__)",
        ),
        (
            "r.filter(x, p)",
            "fold(x, __result__; r; []; True; _?_:_(p, _+_(__result__, [x]), __result__); __result__)",
        ),
        ("r.map(x)", "r.map(x)"),
    ],
)
def test_tree_of_a_correct_expression(source: str, tree: str) -> None:
    assert shown(parsed(source).root) == tree


def test_nodes_are_placed_where_messages_point() -> None:
    expression = parsed("ab.cd == f(x)[0] ? 'é' : [y]")
    at = {
        type(node).__name__ + getattr(node, "function", ""): expression.positions[node.id]
        for node in nodes(expression.root)
    }
    assert at["Call_?_:_"] == 17
    assert at["Call_==_"] == 6
    assert at["Select"] == 2
    assert at["Callf"] == 10
    assert at["Call_[_]"] == 13
    assert at["ListLiteral"] == 25


def nodes(node: Node) -> list[Node]:
    inner: list[Node] = []
    if isinstance(node, Call):
        inner = [*node.arguments, *([node.target] if node.target else [])]
    elif isinstance(node, Select):
        inner = [node.operand]
    elif isinstance(node, ListLiteral):
        inner = list(node.items)
    return [node, *(each for child in inner for each in nodes(child))]


AT_END = "Syntax error: mismatched input '<EOF>' expecting"
ANY_EXPRESSION = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@cases(
    ("source", "messages"),
    [
        ("a ==", [f"1:5: {AT_END} {ANY_EXPRESSION}"]),
        ("(a", ["1:3: Syntax error: missing ')' at '<EOF>'"]),
        ("a)", ["1:2: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("a b c", ["1:3: Syntax error: mismatched input 'b' expecting <EOF>"]),
        ("a..b", ["1:3: Syntax error: extraneous input '.' expecting IDENTIFIER"]),
        ("[1, 2", ["1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}"]),
        ("f(1,)", ["1:4: Syntax error: extraneous input ',' expecting ')'"]),
        ("a ? b", ["1:6: Syntax error: mismatched input '<EOF>' expecting ':'"]),
        (
            "a = b",
            [
                "1:3: Syntax error: token recognition error at: '= '",
                "1:5: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
        (
            "- == 1",
            [
                "1:3: Syntax error: no viable alternative at input '- =='",
                f"1:3: Syntax error: extraneous input '==' expecting {ANY_EXPRESSION}",
            ],
        ),
        (
            "a.in",
            [
                "1:3: Syntax error: missing IDENTIFIER at 'in'",
                f"1:5: {AT_END} {ANY_EXPRESSION}",
            ],
        ),
        ("", [f"1:0: {AT_END} {ANY_EXPRESSION}"]),
        ("a. % 2", ["1:4: Syntax error: missing IDENTIFIER at '%!'(MISSING)"]),
        (
            "'a\\q'",
            [
                "1:1: Syntax error: token recognition error at: ''a\\q'",
                "1:5: Syntax error: token recognition error at: '''",
                f"1:6: {AT_END} {ANY_EXPRESSION}",
            ],
        ),
        (
            "a\n  @b",
            [
                "2:3: Syntax error: token recognition error at: '@'",
                "2:4: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
        ("if + 9223372036854775808", ["1:1: reserved identifier: if", "1:6: invalid int literal"]),
        ("18446744073709551616u", ["1:1: invalid uint literal"]),
        ("1e999", ["1:1: invalid double literal"]),
        (r"'\U00110000'", ["1:1: unable to unescape string"]),
        (r"b'\u00e9'", ["1:1: unable to unescape string"]),
        ("has(a)", ["1:4: invalid argument to has() macro"]),
        ("a.all(1, true)", ["1:7: argument must be a simple name"]),
        ("a.map(b.c, true)", ["1:6: argument is not an identifier"]),
        ("f(){a: 1}", ["1:2: expected a qualified name"]),
        ("(" * 60 + "a" + ")" * 60, ["-1:0: max recursion depth exceeded"]),
        ("(" * 5000, ["-1:0: expression recursion limit exceeded: 250"]),
        ("a" * 100_001, ["-1:0: expression code point size exceeds limit: size: 100001, limit 100000"]),
    ],
)
def test_messages_of_a_wrong_expression(source: str, messages: list[str]) -> None:
    problems = parse(source, LANGUAGE)
    assert isinstance(problems, Problems)
    lines = [line for line in str(problems).split("\n") if line.startswith("ERROR")]
    assert lines == [f"ERROR: <input>:{message}" for message in messages]


def test_message_shows_the_line_and_a_caret_as_wide_as_the_character() -> None:
    assert str(parse("'é'\t+ é", LANGUAGE)) == (
        "ERROR: <input>:1:7: Syntax error: token recognition error at: 'é'\n"
        " | 'é' + é\n"
        " | .．....＾\n"
        f"ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {ANY_EXPRESSION}\n"
        " | 'é' + é\n"
        " | .．....．^"
    )


@cases(
    ("most", "more"),
    [
        ("a" + " == a" * 243, "a" + " == a" * 244),
        ("a" + ".b" * 243, "a" + ".b" * 244),
        ("a ? b : " * 243 + "c", "a ? b : " * 244 + "c"),
        ("(" * 40 + "a" + ")" * 40, "(" * 41 + "a" + ")" * 41),
    ],
)
def test_depth_is_bounded(most: str, more: str) -> None:
    parsed(most)
    assert str(parse(more, LANGUAGE)) == "ERROR: <input>:-1:0: max recursion depth exceeded"


def test_only_the_first_hundred_problems_are_printed() -> None:
    lines = str(parse("@ " * 150, LANGUAGE)).split("\n")
    assert lines[-1] == "51 more errors were truncated"
    assert sum(line.startswith("ERROR") for line in lines) == 100


@cases("source", ["a.b(c)[d] ? {e: 1} : F{g: -2}", "!a && b || c in [1, 2u,]", "-a.all(x, has(x.y))"])
def test_recovery_finds_nothing_wrong_with_what_the_parser_accepts(source: str) -> None:
    parsed(source)
    assert not explain(source, LANGUAGE.features).count
