"""Schemas and rules show clients the names of their dialect."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.names import NAMES

from .schemas import TEXT, compiled, errors_of, list_of, problems, record

DIALECTS = pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])


def ruled(dialect: str, *rules: str, **properties: Any) -> dict[str, Any]:
    prefix = NAMES[dialect].extension_prefix
    return {**record(**properties), f"{prefix}validations": [{"rule": rule} for rule in rules]}


@DIALECTS
def test_the_compiler_names_the_type_of_urls(dialect: str) -> None:
    (found,) = errors_of(
        record(spec=ruled(dialect, "url(self.s) == 'x'", s={**TEXT, "maxLength": 9})), dialect
    )
    assert f"found no matching overload for '_==_' applied to '({dialect}.URL, string)'" in found


@DIALECTS
def test_an_evaluation_names_the_type_of_urls(dialect: str) -> None:
    rule = "int(dyn(url(self.s))) == 1"
    made = compiled(record(spec=ruled(dialect, rule, s=TEXT)), dialect)
    (found,) = problems(made, {"spec": {"s": "/the-same-url-in-both-dialects"}})
    assert f"type conversion error from '{dialect}.URL' to 'int'" in found


@DIALECTS
def test_refusals_name_the_extensions(dialect: str) -> None:
    prefix = NAMES[dialect].extension_prefix
    other = NAMES["cluster" if dialect == "kubernetes" else "kubernetes"].extension_prefix
    schema = record(
        spec={"type": "string", f"{prefix}preserve-unknown-fields": True},
        items=list_of(list_of(TEXT), **{f"{prefix}list-type": "set"}),
        keyed=list_of(TEXT, **{f"{prefix}list-type": "map"}),
        dear=ruled(dialect, "self.a.all(x, self.a.all(y, x == y))", a=list_of(TEXT)),
    )
    found = "\n".join(errors_of(schema, dialect))
    assert prefix in found and other not in found
