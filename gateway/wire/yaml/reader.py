"""A YAML body to a plain value: checked bytes, libyaml's parser, our builder.

The gateway decodes request bodies with it. Where libyaml is missing, PyYAML's own parser gives the same
events, slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from gateway.wire.aside import read_aside
from gateway.wire.yaml import text
from gateway.wire.yaml.builder import Builder
from gateway.wire.yaml.failure import YamlError

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# About two milliseconds of parsing: what other requests may be made to wait.
_OFF_LOOP: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Loaded:
    value: Any
    problems: tuple[str, ...] = ()  # `line 3: key "c" already set in map`, in document order


def in_one(problems: tuple[str, ...]) -> list[str]:
    """Problems with those of loading told as one, which is how Go's readers refuse them."""
    lines = [problem for problem in problems if problem.startswith("line ")]
    if not lines:
        return list(problems)
    return ["yaml: unmarshal errors:\n  " + "\n  ".join(lines), *problems[len(lines) :]]


def load(raw: bytes) -> Loaded:
    text.check(raw)
    parser, builder = _Parser(raw), Builder()
    try:
        builder.build(parser.get_event)
    except yaml.MarkedYAMLError as error:
        raise _refusal(error) from None
    finally:
        parser.dispose()
    return Loaded(builder.value, builder.problems.texts())


async def load_off_loop(raw: bytes) -> Loaded:
    """`load`, in a worker thread where the body is large or may grow by its aliases."""
    if len(raw) <= _OFF_LOOP and not (b"&" in raw and b"*" in raw):
        return load(raw)
    return await read_aside(load, raw)


def _refusal(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "the document cannot be read"
    if mark is None:
        return YamlError(problem)
    return YamlError(problem, mark.line + 1, mark.column + 1)
