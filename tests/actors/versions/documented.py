"""Writes the tables of docs/versions.md from the declarations:

    python -m tests.actors.versions.documented

A test fails when the page does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import parse_enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import CHANGES, GATES, choose_release
from rewound.actors.versions.gates import Gate, gates_of, outlived_by_features
from rewound.actors.versions.version import FIRST, NEWEST, VERSIONS

PAGE = Path(__file__).parents[3] / "docs/versions.md"
BEGIN, END = "<!-- {}: made by python -m tests.actors.versions.documented -->", "<!-- end -->"
NO_GATE = "no such gate"
Rows = dict[tuple[str, str], set[str]]  # the versions that have a resource of a group version


def span(since: str, until: str) -> str:
    if since in ("", FIRST) and until in ("", NEWEST):
        return "all"
    if since == until:
        return since
    if until in ("", NEWEST):
        return f"since {since}"
    return f"until {until}" if since in ("", FIRST) else f"{since} to {until}"


def spans(versions: set[str]) -> str:
    """The versions in words: `1.26 to 1.28, since 1.31`."""
    runs: list[list[str]] = []
    for place, version in enumerate(VERSIONS):
        if version in versions:
            if place and VERSIONS[place - 1] in versions:
                runs[-1].append(version)
            else:
                runs.append([version])
    return ", ".join(span(run[0], run[-1]) for run in runs) or "none"


def served(runtime_config: str) -> Rows:
    """The resources and subresources of each group version."""
    found: Rows = {}
    for version in VERSIONS:
        catalog = built_in(KUBERNETES, choose_release(version), parse_enablement(runtime_config))
        for one in catalog.definitions:
            names = [one.plural, *(f"{one.plural}/{below.name}" for below in one.subresources)]
            for name in names:
                found.setdefault((one.api_version, name), set()).add(version)
    return found


def kinds() -> Iterator[str]:
    """Those that not every version serves."""
    usual, every = served(""), served("api/all=true")
    together: dict[tuple[str, str, str], list[str]] = {}
    for api_version, name in sorted(every):
        on, possible = usual.get((api_version, name), set()), every[api_version, name]
        if len(on) != len(VERSIONS):
            others = spans(possible - on) if possible - on else ""
            together.setdefault((api_version, spans(on), others), []).append(name)
    yield "| group version | resources | served | with `--runtime-config` |"
    yield "|---|---|---|---|"
    for (api_version, on_in, others), names in together.items():
        yield f"| `{api_version}` | {', '.join(names)} | {on_in} | {others} |"


def changes() -> Iterator[str]:
    yield "| change | versions | what the server does then |"
    yield "|---|---|---|"
    for one in sorted(CHANGES, key=lambda one: one.name):
        yield f"| `{one.name}` | {span(one.since, one.until)} | {one.does} |"


def gates() -> Iterator[str]:
    yield "| gate | stage and default |"
    yield "|---|---|"
    for name in sorted(GATES):
        yield f"| `{name}` | {', '.join(_states(name))} |"


def _states(name: str) -> Iterator[str]:
    before = ""
    for version in VERSIONS:
        state = _state(name, version, gates_of(version).get(name))
        if state != before and (before or state != NO_GATE):
            yield f"{version} {state}"
        before = state


def _state(name: str, version: str, gate: Gate | None) -> str:
    if gate is not None:
        return f"{gate.stage} {'on' if gate.on else 'off'}{' locked' if gate.locked else ''}"
    return "always on" if name in outlived_by_features(version) else NO_GATE


TABLES = {"kinds": kinds, "changes": changes, "gates": gates}


def with_tables(text: str) -> str:
    for name, rows in TABLES.items():
        begin = BEGIN.format(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{_joined(rows())}{END}{rest.partition(END)[2]}"
    return text


def _joined(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
