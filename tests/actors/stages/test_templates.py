"""Stages compute a status with a subset of Go's text/template, with the functions of kwok."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.stages.templates import Template, TemplateError, template_budget
from tests.cases import cases

POD: dict[str, Any] = {
    "metadata": {"name": "p", "annotations": {"x": "1"}},
    "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}], "hostNetwork": True},
}
RENDERED = {
    "plain": "plain",
    "{{ .metadata.name }}": "p",
    "{{ .metadata.missing }}": "<no value>",
    "{{ .metadata.missing.deeper }}": "<no value>",
    "{{ .metadata.name | Quote }}": '"p"',
    "{{ Quote .spec.hostNetwork }}": '"true"',
    "{{ range .spec.containers }}{{ .name }},{{ end }}": "a,b,",
    "{{ range $i, $c := .spec.containers }}{{ $i }}={{ $c.name }} {{ end }}": "0=a 1=b ",
    "{{ range $c := .spec.containers }}{{ $c.name }}{{ end }}": "ab",
    "{{ range .spec.none }}x{{ else }}none{{ end }}": "none",
    "{{ if .spec.initContainers }}a{{ else if .spec.hostNetwork }}b{{ else }}c{{ end }}": "b",
    "{{ with .metadata.name }}<{{ . }}>{{ else }}-{{ end }}": "<p>",
    "{{ with .metadata.missing }}x{{ else }}{{ .metadata.name }}{{ end }}": "p",
    "{{ $n := .metadata.name }}{{ range .spec.containers }}{{ $n }}{{ end }}": "pp",
    "{{ $found := false }}{{ range .spec.containers }}{{ $found = true }}{{ end }}{{ $found }}": "true",
    "{{ range .spec.containers }}{{ $.metadata.name }}{{ end }}": "pp",
    "{{ index .spec.containers 1 }}": "map[name:b]",
    '{{ index .metadata.annotations "x" }}': "1",
    '{{ or ( index .metadata.annotations "y" ) "d" }}': "d",
    '{{ and true "last" }}': "last",
    '{{ if eq .metadata.name "q" "p" }}yes{{ end }}': "yes",
    '{{ if not (eq .metadata.missing "x") }}yes{{ end }}': "yes",
    '{{ printf "%s-%d" .metadata.name 3 }}': "p-3",
    '{{ `raw "text"` }}': 'raw "text"',
    "a {{- /* nothing */ -}} b": "ab",
    "a\n{{- .metadata.name -}}\n b": "apb",
    "x: {{ YAML .spec.containers 1 }}": 'x: \n  [{"image":"i","name":"a"},{"name":"b"}]',
    "{{ Now }}": "now",
    '{{ default "d" .spec.none }}': "d",
    "{{ add 1 2 | mul 3 }}": "9",
    "{{ (index .spec.containers 0).image }}": "i",
    "{{ len .spec.containers }}": "2",
}


@cases("text, written", RENDERED.items())
def test_templates_write_what_go_writes(text: str, written: str) -> None:
    assert Template(text).render(POD, {"Now": lambda: "now"}, template_budget()) == written


def test_what_is_wrong_or_not_supported_is_named() -> None:
    for text, named in {
        '{{ define "x" }}{{ end }}': "define",
        "{{ if .a }}": "if without an end",
        "{{ end }}": "unexpected",
        "{{ .a": "unclosed",
        "{{ unknownFunction 1 }}": "unknownFunction",
        "{{ $x }}": "undefined variable",
        "{{ .metadata.name.first }}": "field first",
        "{{ index .spec.containers 9 }}": "out of range",
        "{{ range .metadata.name }}{{ end }}": "iterate",
        "{{ }}": "empty",
        '{{ printf "%999999999d" 1 }}': "at most three digits",
        "{{ range 1000000000 }}{{ end }}": "more than 10000 turns",
        "{{ range 200 }}{{ range 200 }}{{ end }}{{ end }}": "more than 10000 blocks",
        "{{ range 9000 }}" + 200 * "x" + "{{ end }}": "more than 1048576 characters",
    }.items():
        with pytest.raises(TemplateError, match=named):
            Template(text).render(POD, {}, template_budget())


def test_an_action_that_is_not_closed_is_found_in_a_single_pass() -> None:
    """Each text must have only one reading: with two, forty lines would take years."""
    with pytest.raises(TemplateError, match="unclosed"):
        Template("a: {{ .x }\n" + 200 * 'k: "v"\n')
