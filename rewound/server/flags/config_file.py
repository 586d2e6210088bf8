"""The file of `rewound serve --config`: YAML whose keys are the flags without their dashes.

    secure-port: 7443
    kubernetes-version: 1.30                 # as written: a version, no number
    token-auth-file: tokens.csv              # beside this file
    authorization-mode: [Node, RBAC]
    feature-gates: {WatchList: true}

Flags of the command line take precedence over keys, also where a flag may be repeated. Unknown and repeated keys are
refused, because a misspelt key of access would otherwise leave something open. Only a start with --config imports this
module, and the YAML library with it.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import yaml

from rewound.gateway.settings.checks import SettingsError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
PATHS = ("FILE", "FOLDER")  # in the help of a flag whose value is a path
_NOT_KEYS = ("config", "help", "output")  # flags that are no settings


class Entry(msgspec.Struct, frozen=True):
    """A key of the file: where it is, what it says as arguments of the command line, and its parsed value."""

    key: str
    line: int
    arguments: tuple[str, ...]
    value: Any


class ConfigFile(msgspec.Struct, frozen=True):
    path: Path
    entries: dict[str, Entry]  # by the name of the setting

    def place(self, name: str) -> str:
        return f"{self.path}, line {self.entries[name].line}"

    def locate(self, error: SettingsError, overridden: Collection[str]) -> SettingsError:
        """The same error about the key, if the value of its flag is from this file."""
        name = error.flag.removeprefix("--").replace("-", "_")
        entry = None if name in overridden else self.entries.get(name)
        if entry is None:
            return error
        return _refusal(self.path, entry.line, entry.key, str(error).removeprefix(f"{error.flag}: "))


def read_config_file(path: Path, actions: list[argparse.Action]) -> ConfigFile:
    """Read a file whose keys are the flags of these actions. Raises SettingsError that names the line and the key."""
    try:
        root = yaml.compose(path.read_bytes(), Loader=_Loader)
    except OSError as error:
        raise SettingsError("--config", f"{path}: {error.strerror}; check the path") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f", line {mark.line + 1}"
        raise SettingsError("--config", f"{path}{where}: {error.problem}; write YAML") from None
    except yaml.YAMLError as error:
        raise SettingsError(
            "--config", f"{path}: {str(error).splitlines()[0]}; write YAML in UTF-8"
        ) from None
    if root is None:
        return ConfigFile(path, {})
    if not isinstance(root, yaml.MappingNode):
        raise SettingsError("--config", f"{path}: expected keys and values, like `secure-port: 7443`")
    known = {option.removeprefix("--"): action for action in actions for option in action.option_strings}
    return ConfigFile(path, {known[one.key].dest: one for one in _entries(path, root, known)})


def _entries(path: Path, root: Any, known: dict[str, argparse.Action]) -> Iterator[Entry]:
    seen: dict[str, int] = {}
    for key_node, value in root.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        action = known.get(key)
        if action is None or key in _NOT_KEYS:
            raise _refusal(path, line, key, _unknown(key, known))
        if key in seen:
            raise _refusal(path, line, key, f"is in line {seen[key]} too; leave one of them out")
        seen[key] = line
        texts = [_beside(path, action, text) for text in _texts(path, line, key, action, value)]
        yield Entry(
            key, line, tuple(f"--{key}={text}" for text in texts), _parsed(path, line, key, action, texts)
        )


def _unknown(key: str, known: dict[str, argparse.Action]) -> str:
    plain = key.lstrip("-").replace("_", "-")
    near = difflib.get_close_matches(plain, known.keys() - set(_NOT_KEYS), n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"is not a key of this file; {meant}Keys are the flags of `rewound serve --help` without dashes"


def _texts(path: Path, line: int, key: str, action: argparse.Action, node: Any) -> list[str]:
    """The values of a key as the file writes them: one, or several for a flag that may be repeated."""
    is_list = _may_repeat(action)

    def refuse(found: str) -> NoReturn:
        wanted = "a value or a list of values" if is_list else f"one value ({action.metavar})"
        raise _refusal(path, line, key, f"expected {wanted}, got {found}")

    def scalar(one: Any) -> str:
        if isinstance(one, yaml.ScalarNode):
            if one.tag == _NULL:
                raise _refusal(path, line, key, "has no value; give one, or leave the key out")
            return str(one.value)
        refuse("a list" if isinstance(one, yaml.SequenceNode) else "a mapping")

    if is_list and isinstance(node, yaml.SequenceNode):
        return [scalar(one) for one in node.value]
    if is_list and isinstance(node, yaml.MappingNode) and "=" in str(action.metavar):
        return [f"{scalar(name)}={scalar(value)}" for name, value in node.value]
    return [scalar(node)]


def _may_repeat(action: argparse.Action) -> bool:
    return action.type is None  # as `adding.add_list` adds it


def _beside(path: Path, action: argparse.Action, text: str) -> str:
    """Paths are relative to the folder of the file."""
    is_path = action.metavar in PATHS and text not in ("", "-")
    return str(path.parent / text) if is_path else text


def _parsed(path: Path, line: int, key: str, action: argparse.Action, texts: list[str]) -> Any:
    if _may_repeat(action):
        return texts
    parse: Any = action.type
    try:
        return parse(texts[0])
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise _refusal(path, line, key, str(error)) from None


def _refusal(path: Path, line: int, key: str, why: str) -> SettingsError:
    return SettingsError(f"{path}, line {line}: {key}", why)
