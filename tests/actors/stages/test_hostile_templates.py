"""Templates that would use too much time or memory end early, with an error that says why."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.runtime.steps import Steps
from rewound.actors.stages.budget import StageBudget
from rewound.actors.stages.templates import MOST_ACTION, Template, TemplateError, template_budget
from tests.cases import cases

DATA: dict[str, Any] = {
    "many": [{"name": f"n{number}"} for number in range(20_000)],
    "long": 200_000 * "é",
    "text": 60_000 * "x",
}
LARGE = "too large values|more than 1048576 characters|too much processor time"
GROWS = '{{ $s := "xxxxxxxxxxxxxxxx" }}' + 20 * '{{ $s = replace "x" "xxxxxxxxxxxxxxxx" $s }}'
NESTED = '{{ $d := dict "a" "b" }}' + 60 * '{{ $d = dict "a" $d "b" $d "c" $d }}'
LISTS = '{{ $d := list "a" }}' + 60 * "{{ $d = list $d $d $d }}"
MIB = '{{ $s := "xxxxxxxxxxxxxxxx" }}' + 4 * '{{ $s = replace "x" "xxxxxxxxxxxxxxxx" $s }}'


@cases(
    "text, error",
    [
        (GROWS, LARGE),
        ('{{ "x" ' + 60 * '| replace "x" "xxxxxxxx" ' + "}}", LARGE),
        (NESTED, LARGE),
        (NESTED + "{{ toJson $d }}", LARGE),
        (LISTS, LARGE),
        ("{{ range 9999 }}{{ $.long | upper }}{{ end }}", "more than 1048576 characters|too large values"),
        (
            "{{ range 9999 }}{{ $x := $.text | upper | lower }}{{ end }}",
            "more than about 300 ms|too much processor time",
        ),
        (
            "{{ range 99 }}{{ range $.many }}{{ end }}{{ end }}",
            "more than 10000 blocks|more than about|too much processor time",
        ),
        ("{{ toJson .many }}" * 50, "more than about|too much processor time|more than 1048576"),
        ("{{ quote .long }}", "one expression in it has .* too large values|too much processor time"),
        ("{{ printf `" + 200 * "%999d" + "` 1 }}" * 20, "TypeError"),
        ("{{ $s := `%999d` }}" + 12 * "{{ $s = print $s $s $s }}" + "{{ printf $s 1 }}", LARGE),
        ("{{ YAML .text 1000000000 }}", "YAML: the indent 1000000000 is not within 0 and 100"),
        ('{{ join "x" .many }}' * 20, "more than about|too much processor time|too large"),
        ("{{ range 10000 }}{{ if eq $.many $.many }}{{ end }}{{ end }}", "too large values|more than"),
        ("{{ eq .many .many .many .many .many .many }}", "one expression in it has|too much processor time"),
        (NESTED.replace("60", "5") + "{{ index $d $d }}", LARGE),
        ("{{ $d := 1 }}" + 3000 * "{{ $d = list $d }}" + "{{ print $d }}", "nested too deeply"),
        ("{{ 99999999999999999999 }}", "integer overflow"),
        ("{{ add 1 99999.5e300 }}", "not supported|unexpected|int64"),
        ('{{ add 1 "1e300" }}', "no int64"),
        (
            "{{ range 9000 }}{{ $x := and " + 400 * "true " + "}}{{ end }}",
            "more than about 300 ms|too much processor time",
        ),
        (
            "{{ range 9000 }}{{ $x := eq " + 1000 * "1 " + "}}{{ end }}",
            "more than about 300 ms|too much processor time",
        ),
        (
            "{{ $v := 1 }}" + 60 * "{{ if 1 }}" + "{{ range 9000 }}" + 100 * "{{ $v }}" + 61 * "{{ end }}",
            "more than about 300 ms|too much processor time",
        ),
        (65 * "{{ if 1 }}" + 65 * "{{ end }}", "it nests more than 64 blocks"),
        ("{{ if 0 }}" + 100 * "{{ else if 0 }}" + "{{ end }}", "it nests more than 64 blocks"),
        (70_000 * "x", "it has 70000 characters; at most 65536"),
        ("{{ .a " + MOST_ACTION * " " + ".b }}", f"an action has more than {MOST_ACTION} characters"),
        (30_000 * "{{", "unclosed action"),
        ('{{ "' + 20_000 * "{{ ", "unclosed action"),
        (16_000 * "{{/*", "unclosed action"),
    ],
)
def test_hostile_template_is_refused(text: str, error: str) -> None:
    with pytest.raises(TemplateError, match=error):
        Template(text).render(DATA, {}, template_budget())


def test_integers_are_int64_and_wrap_around_as_those_of_go() -> None:
    for text, written in {
        "{{ $n := 3 }}" + 40 * "{{ $n = mul $n $n }}" + "{{ $n }}": str(wrapped(pow(3, 2**40, 2**64))),
        "{{ add 9223372036854775807 1 }}": "-9223372036854775808",
        "{{ sub -9223372036854775807 9 }}": "9223372036854775800",
        '{{ add1 "9223372036854775806" }}': "9223372036854775807",
        "{{ div 9223372036854775807 2 }}": "4611686018427387903",
        "{{ div -7 2 }}": "-3",
        "{{ mod -7 2 }}": "-1",
        "{{ mod 7 -2 }}": "1",
    }.items():
        assert Template(text).render({}, {}, template_budget()) == written, text


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def test_rendering_may_rest_after_each_turn_of_a_range() -> None:
    class Resting(StageBudget):
        rests = 0

        def rest(self) -> bool:
            self.rests += 1
            return super().rest()

    budget = Resting(10**12, 10**12)
    assert Template("{{ range 5000 }}{{ end }}").render({}, {}, budget) == ""
    assert budget.rests >= 5000


def test_long_rendering_pauses_and_writes_the_same() -> None:
    template = Template("{{ range $i, $c := .many }}{{ if lt $i 4000 }}{{ $c.name }},{{ end }}{{ end }}")
    data = {"many": DATA["many"][:4000]}
    written: list[str] = []

    def whole() -> Steps[None]:
        written.append((yield from template.steps(data, {}, template_budget())))

    assert len(list(whole())) >= 10
    assert written == [template.render(data, {}, template_budget())]
