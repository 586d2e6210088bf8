"""Changes fields of a kubeconfig file in place: comments, order and every other entry stay as they are.

The YAML library reports where a value begins and ends, and only that part of the text is replaced. Rejected: load and
dump the document, which loses comments and writes times and long strings in another form.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from actors.certificates.store import write_atomically
from gateway.client.errors import ConfigError

_LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.05


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other programs from writing the file: kubectl uses the same lock file."""
    lock = path.with_name(f"{path.name}.lock")
    _create(lock, path)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def set_provider_fields(path: Path, user: str, fields: Mapping[str, str]) -> None:
    """Set these fields in the config of the user's auth-provider. The file keeps its mode."""
    # Where the path is a symbolic link, the file behind it is replaced, not the link.
    real = path.resolve()
    try:
        text, mode = real.read_text("utf-8"), stat.S_IMODE(real.stat().st_mode)
        for name, value in fields.items():
            text = _with_field(text, _config_node(text, path, user), name, value)
        write_atomically(real, text.encode(), mode)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror}; make the file and its folder writable: the new token is lost"
        ) from error


def _create(lock: Path, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return
        except FileExistsError as error:
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"{path}: another program holds {lock.name}; if none runs, delete that file"
                ) from error
            time.sleep(_POLL_SECONDS)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be locked: {error.strerror}; make its folder writable, or pass a token with --token"
            ) from error


def _config_node(text: str, path: Path, user: str) -> yaml.MappingNode:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for entry in _entries(_value(root, "users")):
        name = _value(entry, "name")
        if isinstance(name, yaml.ScalarNode) and name.value == user:
            node = _value(_value(_value(entry, "user"), "auth-provider"), "config")
            if isinstance(node, yaml.MappingNode) and node.value:
                return node
    raise ConfigError(
        f"{path}: users[{user}].user.auth-provider.config is no longer there; the new token is lost"
    )


def _entries(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
        return next((value for key, value in pairs if key.value == name), None)
    return None


def _with_field(text: str, node: yaml.MappingNode, name: str, value: str) -> str:
    quoted = json.dumps(value)
    found = _value(node, name)
    if found is not None:
        begin, end = found.start_mark.index, found.end_mark.index
        # An empty value has no width; a block scalar ends with its line break.
        before = " " if begin and text[begin - 1] == ":" else ""
        after = "\n" if text[begin:end].endswith("\n") else ""
        return text[:begin] + before + quoted + after + text[end:]
    begin = node.value[0][0].start_mark.index
    if node.flow_style:
        return f"{text[:begin]}{json.dumps(name)}: {quoted}, {text[begin:]}"
    indent = " " * node.value[0][0].start_mark.column
    return f"{text[:begin]}{name}: {quoted}\n{indent}{text[begin:]}"
