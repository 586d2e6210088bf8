"""Changes kubeconfig files in place: comments, order and every other entry stay as they are.

The YAML library reports where a value begins and ends, and only that part of the text is replaced. Rejected: load and
dump the document, which loses comments and reformats times and long strings; it remains for files in which a context
cannot be put or removed otherwise, such as those in JSON.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from rewound.actors.access.remote.kubeconfig_file import KubeconfigError, parse_kubeconfig
from rewound.actors.access.remote.yaml_file import load_yaml
from rewound.actors.certificates.pki import write_atomically
from rewound.client.errors import ConfigError
from rewound.journal.files.private import private_folder

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
                f"{path}: cannot be locked: {error.strerror}; make its folder writable"
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


# Contexts of clusters that `rewound up` starts. Each has a cluster and a user of the same name.

_LISTS = ("clusters", "contexts", "users")
_CURRENT = "current-context"


def put_context(path: Path, name: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> str:
    """Put a context into the file, which is created if it is missing, and make it the current one.

    Returns the context that was current before. Raises ConfigError. Afterwards only the owner can read the file: it has
    the key of the user.
    """
    entries: dict[str, dict[str, Any]] = {
        "clusters": {"name": name, "cluster": dict(cluster)},
        "contexts": {"name": name, "context": {"cluster": name, "user": name}},
        "users": {"name": name, "user": dict(user)},
    }
    with _edited(path) as file:
        before = file.current
        for kind in _LISTS:
            file.put(kind, name, entries[kind])
        file.select(name)
    return before


def drop_context(path: Path, name: str, before: str) -> None:
    """Remove a context with its cluster and user. If it is the current one, that is `before` again, if it still exists.

    Raises ConfigError.
    """
    if not path.exists():
        return
    with _edited(path) as file:
        for kind in _LISTS:
            file.put(kind, name, None)
        if file.current == name:
            file.select(before if before in file.names("contexts") else "")


def check_editable(path: Path) -> None:
    """Raises ConfigError if the file is no kubeconfig file, or cannot be written."""
    _read(path)
    folder = next(one for one in path.resolve().parents if one.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{path}: {folder} is not writable; make it so, or name another file with --kubeconfig"
        )


@contextmanager
def _edited(path: Path) -> Iterator[_Edited]:
    """A file that is written at the end, if it was changed."""
    try:
        private_folder(path.parent)
    except OSError as error:
        raise ConfigError(f"{path}: its folder cannot be created: {error.strerror}") from error
    with locked(path):
        text = _read(path)
        file = _Edited(text)
        yield file
        if file.text == text:
            return
        try:
            write_atomically(path.resolve(), file.text.encode(), 0o600)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}; it stays as it was") from error


def _read(path: Path) -> str:
    """The text of the file; empty if it is missing. Raises ConfigError if it is no kubeconfig file."""
    try:
        raw = path.read_bytes()
        parse_kubeconfig(raw if raw.strip() else b"{}", path)
        return raw.decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8; correct it, or name another file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except KubeconfigError as error:
        raise ConfigError(f"{error}; correct it, or name another file") from error


class _Edited:
    """The text of a kubeconfig file, while it is changed. Every change is checked by parsing the text again."""

    def __init__(self, text: str) -> None:
        self.text = text if load_yaml(text.encode()) else f"{text}apiVersion: v1\nkind: Config\n"

    @property
    def current(self) -> str:
        return str(self._document().get(_CURRENT) or "")

    def names(self, kind: str) -> list[str]:
        return [one["name"] for one in self._document().get(kind) or ()]

    def select(self, name: str) -> None:
        wanted = self._document() | {_CURRENT: name}
        self._change(wanted, self._with_current(name))

    def put(self, kind: str, name: str, entry: dict[str, Any] | None) -> None:
        """Replace an entry of a list, or remove it if there is none."""
        if name in self.names(kind):
            wanted = self._document()
            wanted[kind] = [one for one in wanted[kind] if one["name"] != name]
            self._change(wanted, self._without(kind, name))
        if entry is not None:
            wanted = self._document()
            wanted[kind] = [*(wanted.get(kind) or ()), entry]
            self._change(wanted, self._with(kind, entry))

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = load_yaml(self.text.encode())
        return document

    def _change(self, wanted: dict[str, Any], text: str) -> None:
        """Take the text, if it means what is wanted."""
        try:
            means = load_yaml(text.encode())
        except ValueError:
            means = None
        if not isinstance(means, dict) or _filled(means) != _filled(wanted):
            text = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
        self.text = text

    def _root(self) -> yaml.Node | None:
        return yaml.compose(self.text, Loader=yaml.SafeLoader)

    def _with_current(self, name: str) -> str:
        root = self._root()
        if not isinstance(root, yaml.MappingNode) or not root.value:
            return self.text
        return _with_field(self.text, root, _CURRENT, name)

    def _with(self, kind: str, entry: dict[str, Any]) -> str:
        found, lines = _value(self._root(), kind), self._lines()
        items = _entries(found)
        if items and isinstance(found, yaml.SequenceNode) and found.flow_style:
            return self._with_items(found, [*map(self._source, items), json.dumps(entry)])
        column = 0
        if items:
            column, at = items[-1].start_mark.column - 2, _last_line(items[-1]) + 1
        elif found is None:
            lines.append(f"{kind}:\n")
            at = len(lines)
        else:
            at = found.start_mark.line + 1
            lines[at - 1] = f"{kind}:\n"
        block = yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=1_000_000)
        lines[at:at] = [" " * column + line for line in block.splitlines(keepends=True)]
        return "".join(lines)

    def _without(self, kind: str, name: str) -> str:
        found, lines = _value(self._root(), kind), self._lines()
        others, removed = [], None
        for item in _entries(found):
            given = _value(item, "name")
            if isinstance(given, yaml.ScalarNode) and given.value == name:
                removed = item
            else:
                others.append(item)
        assert isinstance(found, yaml.SequenceNode) and removed is not None, "`put` has found it"
        if found.flow_style:
            return self._with_items(found, list(map(self._source, others)))
        del lines[removed.start_mark.line : _last_line(removed) + 1]
        return "".join(lines)

    def _with_items(self, sequence: yaml.Node, items: list[str]) -> str:
        """The text with other items in a list in brackets."""
        begin, end = sequence.start_mark.index, sequence.end_mark.index
        return f"{self.text[:begin]}[{', '.join(items)}]{self.text[end:]}"

    def _source(self, node: yaml.Node) -> str:
        return self.text[node.start_mark.index : node.end_mark.index]

    def _lines(self) -> list[str]:
        text = self.text if self.text.endswith("\n") else self.text + "\n"
        return text.splitlines(keepends=True)


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its empty fields, which mean the same as missing ones."""
    return {name: value for name, value in document.items() if value not in (None, [], "")}


def _last_line(node: yaml.Node) -> int:
    """The number of the last line of a node, without the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return max(_last_line(value) for _, value in node.value)
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return max(map(_last_line, node.value))
    mark = node.end_mark
    # A block scalar ends at the start of the line after it.
    return mark.line - 1 if mark.column == 0 and mark.line > node.start_mark.line else mark.line
