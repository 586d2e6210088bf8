"""Reads a YAML body: `text` checks the bytes, libyaml parses them, `builder` builds the value.

Without libyaml, PyYAML's parser gives the same events, slowly.
"""

from __future__ import annotations

from typing import Any

import yaml

from gateway.wire.yaml import text
from gateway.wire.yaml.builder import Builder
from gateway.wire.yaml.failure import YamlError
from gateway.wire.yaml.loaded import Loaded

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


def _refusal(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "the document cannot be read"
    if mark is None:
        return YamlError(problem)
    return YamlError(problem, mark.line + 1, mark.column + 1)
