"""docs/metrics.md has every metric; the alerts and the dashboard use metrics and labels that a server has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cases import cases
from tests.gateway.ops.documented_metrics import (
    HEADING,
    PAGE,
    ROOT,
    declared,
    described,
    served_metrics,
    table,
)

EXAMPLES = ROOT / "docs" / "examples"
RULES = EXAMPLES / "prometheus" / "rewound.rules.yaml"
DASHBOARD = EXAMPLES / "grafana" / "rewound.json"
FUNCTIONS = {"changes", "histogram_quantile", "increase", "max", "rate", "sum", "time", "topk"}
WORDS = {"by", "or", "and", "up"}  # `up` is Prometheus' own
SCRAPED = {"instance", "job", "le"}  # labels that Prometheus adds, and those of buckets
_SELECTED = re.compile(r"([a-z_:][a-z0-9_:]*)\{([^{}]*)\}")
_MATCHER = re.compile(r'\s*([a-z_]+)\s*(=|!=|=~|!~)\s*"[^"]*"\s*')
_GROUPED = re.compile(r"\bby \(([^()]*)\)")
_RANGE = re.compile(r"\[(\d+[smhd]|\$__rate_interval)\]")


async def test_every_metric_is_on_the_page_and_examples_use_only_such(tmp_path: Path) -> None:
    exposition = await served_metrics(tmp_path)
    metrics = declared() | described(exposition)
    assert PAGE.read_text().partition(HEADING)[2].endswith(table(metrics)), (
        "run: python -m tests.gateway.ops.documented_metrics"
    )
    known = {f"{name}{end}" for name in metrics for end in ("", "_bucket", "_sum", "_count")}
    labels = labels_of(exposition)
    used = [*alerts(), *panels()]
    assert len(used) > 40
    problems = [f"{one}: {why}" for one in used for why in problems_of(one, known, labels)]
    assert problems == []


def alerts() -> Iterator[str]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"].keys() == {"summary", "description"} and rule["labels"]["severity"]
            yield rule["expr"]


def panels() -> Iterator[str]:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    numbers = [one["id"] for one in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in dashboard["panels"]:
        yield from (one["expr"] for one in panel.get("targets", ()))


def labels_of(exposition: str) -> dict[str, set[str]]:
    """The labels of each metric that has a value."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z_]+)\{(.*)\} \S+$", exposition, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(?:^|,)([a-z_]+)="', labels))
    return found


def problems_of(expression: str, known: set[str], labels: dict[str, set[str]]) -> Iterator[str]:
    for opening, closing in ("()", "{}", "[]"):
        if expression.count(opening) != expression.count(closing):
            yield f"{opening} and {closing} do not match"
    matched: dict[str, set[str]] = {}
    for name, text in _SELECTED.findall(expression):
        for matcher in text.split(","):
            parsed = _MATCHER.fullmatch(matcher)
            if parsed is None:
                yield f"{matcher} is no matcher of a label"
            else:
                matched.setdefault(name, set()).add(parsed[1])
    for name, given in matched.items():
        if name in labels and not given <= labels[name] | SCRAPED:
            yield f"{name} has not the labels {given - labels[name] - SCRAPED}"
    plain = _RANGE.sub("", _GROUPED.sub("", _SELECTED.sub(r"\1", expression)))
    if "[" in plain or "{" in plain:
        yield "a range or selector cannot be read"
    names = set(re.findall(r"[a-z_:][a-z0-9_:]*", plain))
    for name in names - FUNCTIONS - WORDS - known:
        yield f"{name} is not there"
    grouped = {one.strip() for text in _GROUPED.findall(expression) for one in text.split(",")}
    having = [labels[one] for one in names if one in labels]
    if having and len(having) == len(names - FUNCTIONS - WORDS):
        for label in grouped - SCRAPED - set().union(*having):
            yield f"no metric has the label {label}"


@cases(
    "expression, problem",
    [
        ('rate(a_total{x="1"}[5m]) > 0', ""),
        ("rate(a_total[5m] > 0", "( and ) do not match"),
        ("b_total", "b_total is not there"),
        ('a_total{y="1"}', "a_total has not the labels {'y'}"),
        ("a_total{x=1}", "x=1 is no matcher of a label"),
        ("sum by (z) (a_total)", "no metric has the label z"),
        ("rate(a_total[5 minutes])", "a range or selector cannot be read"),
    ],
)
def test_wrong_expressions_are_found(expression: str, problem: str) -> None:
    assert ([*problems_of(expression, {"a_total"}, {"a_total": {"x"}}), ""])[0] == problem
