from __future__ import annotations

import pytest

from rewound.actors.selectors import LabelSelector
from tests.cases import cases

FRONT = {"app": "web", "tier": "front"}
BACK = {"app": "db", "tier": "back"}
EMPTY = {"x": ""}
NONE: dict[str, str] = {}


@cases(
    ("text", "taken", "left"),
    [
        ("", [FRONT, NONE], []),
        ("   ", [FRONT, NONE], []),
        ("app=web", [FRONT], [BACK, NONE]),
        ("app==db", [BACK], [FRONT, NONE]),
        ("app!=web", [BACK, NONE], [FRONT]),
        ("app=WEB", [], [FRONT]),
        ("app = web , tier = front", [FRONT], [BACK]),
        ("app in (web,db)", [FRONT, BACK], [NONE]),
        ("app in ( db , web )", [FRONT, BACK], [NONE]),
        ("app in(web)", [FRONT], [BACK]),
        ("tier notin (front)", [BACK, NONE], [FRONT]),
        ("tier", [FRONT, BACK], [NONE]),
        ("!tier", [NONE], [FRONT, BACK]),
        (" ! app ", [NONE], [FRONT]),
        ("app,!tier", [{"app": "x"}], [FRONT, NONE]),
        ("app=web,app=db", [], [FRONT, BACK, NONE]),
        ("app=web,app=web", [FRONT], [BACK]),
        ("app,app!=db", [FRONT], [BACK, NONE]),
        ("x=", [EMPTY], [{"x": "1"}, NONE]),
        ("x!=", [{"x": "1"}, NONE], [EMPTY]),
        ("x=,app=web", [{"x": "", "app": "web"}], [EMPTY]),
        ("x in ()", [EMPTY], [{"x": "1"}, NONE]),
        ("x in (,1)", [EMPTY, {"x": "1"}], [{"x": "2"}, NONE]),
        ("x in (1,)", [EMPTY, {"x": "1"}], [{"x": "2"}, NONE]),
        ("x in (1,,2)", [EMPTY, {"x": "1"}, {"x": "2"}], [NONE]),
        ("x notin ()", [{"x": "1"}, NONE], [EMPTY]),
        ("x>5", [{"x": "6"}, {"x": "10"}], [{"x": "5"}, {"x": "a"}, EMPTY, NONE]),
        ("x<5", [{"x": "4"}, {"x": "00"}], [{"x": "5"}, {"x": "a"}, NONE]),
        ("x>3,x<5", [{"x": "4"}], [{"x": "3"}, {"x": "5"}]),
        ("x<9223372036854775807", [{"x": "1"}], [{"x": "9223372036854775808"}]),
        ("in in (in)", [{"in": "in"}], [{"in": "x"}]),
        ("notin=notin", [{"notin": "notin"}], [NONE]),
        ("example.com/part-of=A_b.c-d", [{"example.com/part-of": "A_b.c-d"}], [{"part-of": "A_b.c-d"}]),
    ],
)
def test_selector_matches_labels(text: str, taken: list[dict[str, str]], left: list[dict[str, str]]) -> None:
    selector = LabelSelector.parse(text)
    assert all(selector.matches(labels) for labels in taken)
    assert not any(selector.matches(labels) for labels in left)


@cases(
    ("one", "other"),
    [
        ("b,a", "a,b"),
        ("a==1", " a = 1"),
        ("a in (1)", "a=1"),
        ("a notin (1)", "a!=1"),
        ("a in (2,1,2)", "a in (1,2)"),
        ("a=1,a=1", "a=1"),
        ("a in ()", "a="),
    ],
)
def test_equivalent_texts_parse_to_the_same_selector(one: str, other: str) -> None:
    assert LabelSelector.parse(one) == LabelSelector.parse(other)
    assert str(LabelSelector.parse(one)) == str(LabelSelector.parse(other))


@pytest.mark.parametrize("text", ["a,!b,c=1,d!=2,e in (1,2),f notin (,3),g>1,h<2,i="])
def test_printed_selector_parses_to_the_same_selector(text: str) -> None:
    assert str(LabelSelector.parse(text)) == text


def test_empty_selector_is_false() -> None:
    assert not LabelSelector.parse("")
    assert LabelSelector.parse("a")
