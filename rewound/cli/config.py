"""`rewound config print`: the settings that `rewound serve` would have, and where each comes from.

Takes the flags of `rewound serve`, --config too, and prints every setting with its source: a flag, a line of the file,
the data folder or the default. The output is such a file itself; -o json is for scripts. Nothing is started or written.

rewound config print --config server.yaml
rewound config print --config server.yaml --secure-port 7443 -o json
rewound config print > server.yaml                             a file to begin with
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewound.cli.command import run_command
from rewound.client.errors import UsageError
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.server.flags.adding import values_of, written_duration
from rewound.server.flags.config_file import PATHS
from rewound.server.flags.parser import FlagParser, Given, make_parser, read_flags, stored_choice
from rewound.server.flags.values import duration

_DEFAULT = re.compile(r"\(default:? (.*)\)$")
_PLAIN = re.compile(r"[\w./][\w./:,=+-]*(?<!:)", re.ASCII)  # needs no quotes in YAML


def config(arguments: Sequence[str]) -> int:
    return run_command(lambda: _run(arguments), (((UsageError, SettingsError), 2),))


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] not in (["print"], ["-h"], ["--help"]):
        raise UsageError("config: the command is `rewound config print [flags of rewound serve]`")
    given = read_flags(arguments[arguments[0] == "print" :], _parser())
    output = given.flags.pop("output", "yaml")
    sections = dict(_sections(given))
    if output == "json":
        print(json.dumps([one.document() for found in sections.values() for one in found], indent=2))
    else:
        print("\n\n".join("\n".join(_lines(title, found)) for title, found in sections.items()))
    return 0


def _parser() -> FlagParser:
    """The parser of `rewound serve`, with what this command has in addition."""
    parser = make_parser()
    parser.prog = "rewound config print"
    parser.usage = "rewound config print [-o yaml|json] [flags of rewound serve]"
    parser.description = (__doc__ or "").partition("\n\n")[2].strip("\n")
    parser.epilog = None
    parser.add_argument("-o", "--output", choices=("yaml", "json"), help="(default yaml)")
    return parser


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    value: Any  # None if it is not set
    source: str  # flag, file, data folder, default or not set
    detail: str = ""  # file and line, or what an unset one means

    def document(self) -> dict[str, Any]:
        found = {"name": self.name, "value": self.value, "source": self.source}
        return found | ({"detail": self.detail} if self.detail else {})


def _lines(title: str, settings: list[_Setting]) -> Iterator[str]:
    yield f"# {title}"
    for one in settings:
        text = f"# {one.name}:" if one.value is None else f"{one.name}: {_yaml(one.value)}"
        yield f"{text:<50} # {one.source}{f': {one.detail}' if one.detail else ''}"


def _yaml(value: Any) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    return str(value) if is_plain else json.dumps(value, ensure_ascii=False)


def _sections(given: Given) -> Iterator[tuple[str, list[_Setting]]]:
    settings, _ = given.settings()
    values = values_of(settings)
    values["journal_retention"] = _written_retention(settings)
    stored = dict(zip(("dialect", "kubernetes_version"), stored_choice(settings.data_dir), strict=True))
    for group in make_parser()._action_groups:
        actions = [action for action in group._group_actions if action.dest in values]
        if actions:
            yield group.title or "", [_setting(one, values[one.dest], given, stored) for one in actions]


def _setting(action: Any, value: Any, given: Given, stored: dict[str, str]) -> _Setting:
    name, written = action.option_strings[0].removeprefix("--"), _written(action, value)
    if action.dest in given.flags:
        return _Setting(name, written, "flag")
    if given.file is not None and action.dest in given.file.entries:
        return _Setting(name, written, "file", given.file.place(action.dest))
    if value and value == stored.get(action.dest):
        return _Setting(name, written, "data folder")
    meaning = None if value or value is False else _DEFAULT.search(action.help)
    if written is None and meaning is None:
        return _Setting(name, None, "not set")
    return _Setting(name, written, "default", meaning[1] if meaning else "")


def _written(action: Any, value: Any) -> Any:
    """The value as a file has it; None if there is none."""
    if value in (None, "", ()):
        return None
    if action.type is duration:
        return written_duration(value)
    if isinstance(value, tuple):
        return [_written_path(action, one) for one in value]
    return _written_path(action, value)


def _written_retention(settings: Settings) -> str:
    times = [written_duration(settings.journal_retention or 0)]  # 0: forever
    return ",".join(times + [f"{kind}={written_duration(time)}" for kind, time in settings.retention_by_kind])


def _written_path(action: Any, value: Any) -> Any:
    """Paths are absolute: those of a file are relative to its folder, those of flags to the current one."""
    return str(Path(value).absolute()) if action.metavar in PATHS and value != "-" else value
