"""Warnings of the server, on standard error in the form of kubectl: `Warning: ...`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

# RFC 7234, 5.5, as API servers send it: 299 - "text".
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def print_warnings(headers: Iterable[str]) -> None:
    """Print the texts of `Warning` headers; others than those of API servers are left out."""
    for value in headers:
        for text in _WARNING.findall(value):
            print_warning(re.sub(r"\\(.)", r"\1", text))


def print_warning(text: str) -> None:
    shown = "".join(one if one.isprintable() else " " for one in text)
    print(f"Warning: {shown}", file=sys.stderr, flush=True)
