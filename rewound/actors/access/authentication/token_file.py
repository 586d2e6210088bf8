"""The static token file: CSV lines of `token,user,uid` and an optional column `"group1,group2"`.

Read at start, and again when it changes. A mistake stops the start with an error that names the line, because a
silently ignored token would be noticed much later; in a running server the tokens stay as they were. Empty or repeated
tokens are mistakes here, and so are unquoted groups, of which only the first would count.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from rewound.actors.identity import User


class TokenFileError(ValueError):
    """The token file cannot be used; the text says where and what to do."""


class _BadLine(Exception):
    pass


def read_tokens(path: Path) -> dict[str, User]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return parse_tokens(lines, str(path))
    except OSError as error:
        raise TokenFileError(f"cannot read the token file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenFileError(f"the token file {path} is not UTF-8 text: {error.reason}") from error


def parse_tokens(lines: Iterable[str], source: str) -> dict[str, User]:
    tokens: dict[str, User] = {}
    reader = csv.reader(lines, strict=True)
    try:
        for row in reader:
            if row:
                token, user = _entry(row)
                if token in tokens:
                    raise _BadLine("repeats the token of an earlier line; give each user a token of its own")
                tokens[token] = user
    except (csv.Error, _BadLine) as error:
        raise TokenFileError(f"{source}, line {reader.line_num}: {error}") from error
    return tokens


def _entry(row: list[str]) -> tuple[str, User]:
    if len(row) < 3:
        raise _BadLine(
            f"needs at least the columns token,user,uid, has {len(row)}; for example t0k3n,alice,1001"
        )
    if len(row) > 4:
        raise _BadLine('has more than 4 columns; put several groups in double quotes: t0k3n,alice,1001,"a,b"')
    token, name, uid, *groups = row
    if not token or not name:
        raise _BadLine(f"has an empty {'user name' if token else 'token'}; fill it in or remove the line")
    return token, User(name, uid, tuple(filter(None, groups[0].split(",")) if groups else ()))
