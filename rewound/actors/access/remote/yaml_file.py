"""Parses configuration files in YAML or JSON. Errors never quote the file, which may contain keys and tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Final, TypeVar

_AS_TEXT: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")


class NotYaml(ValueError):
    """The file is neither YAML nor JSON; the text names the line and nothing of the contents."""


def load_yaml(raw: bytes) -> Any:
    import yaml  # here, because only servers with such a file need it at start

    return _loaded(lambda: yaml.load(raw, _loader()))


def load_documents(raw: bytes) -> list[Any]:
    """The documents of a stream."""
    import yaml

    return _loaded(lambda: list(yaml.load_all(raw, _loader())))


T = TypeVar("T")


def _loaded(load: Callable[[], T]) -> T:
    import yaml

    try:
        return load()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise NotYaml(f"is neither YAML nor JSON{where}") from None


@cache
def _loader() -> Any:
    """Reads times and words such as `on` as text, because extensions are passed on as JSON."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag not in _AS_TEXT]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    words = re.compile("(?:true|True|TRUE|false|False|FALSE)$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", words, list("tTfF"))
    return Loader
