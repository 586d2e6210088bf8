"""Parses configuration files in YAML or JSON. Errors never quote the file, which may have keys and tokens in it."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml


class NotYaml(ValueError):
    """The text names the line and nothing of the contents."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads times and words such as `on` as text, because extensions are passed on as JSON."""


_AS_TEXT: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def load_yaml(raw: bytes) -> Any:
    try:
        return yaml.load(raw, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise NotYaml(f"is neither YAML nor JSON{where}") from None
