"""The table of rules is consistent, docs/profiles.md shows it, and no other module lets the dialect decide a rule."""

from __future__ import annotations

import ast
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from rewound.actors.names import NAMES
from rewound.actors.profile import (
    DOCUMENTS,
    PROFILES,
    TABLE,
    V1_25,
    Rule,
    Rules,
    choose_rules,
    default_rules,
    parse_assignments,
    profile_of,
)

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "rewound"
# Expressions that compare or look up a dialect without deciding a rule, by module.
ABOUT_NAMES = {
    (
        "actors/versions/features.py",
        "dialect == DOCUMENTS_DIALECT",
    ),  # configuration files, which the documents lack
    ("gateway/aggregation/on_demand.py", "NAMES[self._settings.dialect]"),
    ("rewound/server/open_store.py", "NAMES[settings.dialect]"),
    ("rewound/testing/zygote.py", "NAMES[dialect]"),
    ("rewound/cluster/standby/sinks.py", "header.dialect not in NAMES"),  # a stream of another program
    ("gateway/settings/settings.py", "NAMES[self.dialect]"),
    ("rewound/testing/explore/invariants.py", "NAMES[dialect]"),
    ("rewound/testing/explore/still_server.py", "NAMES[dialect]"),
    ("rewound/recording/replay/replay.py", "NAMES[recording.dialect]"),
    ("rewound/recording/replay/until.py", "NAMES[recording.dialect]"),
    ("actors/store/etcd/copy.py", "cluster.dialect != dialect"),  # nodes of one cluster share one
    ("rewound/recording/query/folder.py", "journal.dialect in NAMES"),
    ("rewound/recording/query/folder.py", "NAMES[self._journal.dialect]"),
    ("rewound/recording/query/folder.py", "self._journal.dialect not in NAMES"),
    ("rewound/recording/query/kind_names.py", "names is CLUSTER"),  # a table of both dialects
    ("rewound/recording/query/kind_names.py", "NAMES[journal.dialect]"),
    ("rewound/recording/query/kind_names.py", "dialect == CLUSTER.dialect"),
    ("rewound/recording/query/kind_names.py", "of == dialect"),
    ("rewound/testing/fixture/clients.py", "dialect != 'kubernetes'"),  # which clients can talk to it
    ("rewound/cli/serve.py", "settings.dialect != 'kubernetes'"),  # a hint about kubectl
    ("rewound/cli/serve.py", "settings.dialect == 'kubernetes'"),
    ("rewound/cli/journal/recover.py", "found.dialect == 'cluster'"),  # a flag of the printed command
    ("rewound/cli/journal/importing.py", "header.dialect == 'cluster'"),
    ("rewound/cli/importing.py", "NAMES[journal.dialect]"),
    ("rewound/cluster/membership.py", "NAMES[settings.dialect]"),
    ("actors/versions/version.py", "_DEFAULTS[dialect]"),  # the version of a dialect
    ("actors/versions/version.py", "dialect == DOCUMENTS_DIALECT"),
    ("rewound/cli/upgrade_check.py", "names.dialect == DOCUMENTS_DIALECT"),
    ("rewound/cli/policy.py", "recording.dialect == DOCUMENTS_DIALECT"),
    ("rewound/cli/policy.py", "NAMES[recording.dialect]"),
    ("rewound/recording/policies/trial.py", "NAMES[recording.dialect]"),
    ("rewound/testing/fixture/plugin.py", "dialect == 'kubernetes'"),  # which has several versions
    ("rewound/recording/record/kinds.py", "names.dialect != 'kubernetes'"),
    ("rewound/recording/flight/flight.py", "NAMES[self.journal.dialect]"),
    ("rewound/recording/flight/flight.py", "NAMES[journal.dialect]"),
    (
        "rewound/recording/flight/flight.py",
        "recorder.dialect != self.journal.dialect",
    ),  # one folder, one cluster
    ("rewound/server/flags/parser.py", "given['dialect'] == dialect"),  # that of the folder
    (
        "rewound/recording/record/audit_import.py",
        "self._names.dialect == 'kubernetes'",
    ),  # which server wrote the log
}


def test_names_are_kebab_case_and_words_differ() -> None:
    for one in TABLE:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name)
        assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", word) for word in one.words)
        assert len(set(one.words)) == 2
        assert one.documents.does and one.v1_25.does and one.source


def test_types_of_rules_allow_the_words_of_the_table() -> None:
    types = {one.name: str(one.type) for one in fields(Rules)}
    for one in TABLE:
        assert types[one.name.replace("-", "_")] == f"Literal{list(one.words)}"


def test_dialect_picks_the_default() -> None:
    assert {dialect: profile_of(dialect) for dialect in NAMES} == {"cluster": DOCUMENTS, "kubernetes": V1_25}
    for dialect in NAMES:
        assert default_rules(dialect) == choose_rules(dialect) == choose_rules(dialect, profile_of(dialect))


def test_profile_has_all_words_of_its_column() -> None:
    for one in TABLE:
        name = one.name.replace("-", "_")
        assert getattr(choose_rules("cluster", DOCUMENTS), name) == one.documents.word
        of_v1_25 = one.documents if one.opt_in else one.v1_25
        assert getattr(choose_rules("cluster", V1_25), name) == of_v1_25.word


def test_single_rules_are_set_by_name() -> None:
    for profile in PROFILES:
        base = choose_rules("cluster", profile)
        for one in TABLE:
            for word in one.words:
                changed = choose_rules("cluster", profile, f"{one.name}={word}")
                assert changed == replace(base, **{one.name.replace("-", "_"): word})
    assert parse_assignments(" health = rewound ,health=kubernetes,, ") == {"health": "kubernetes"}
    assert parse_assignments("") == {}


def test_unknown_names_and_values_are_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"there is no rule 'helth'; there are .*health"):
        parse_assignments("helth=rewound")
    valid = "give health=rewound or health=kubernetes"
    with pytest.raises(ValueError, match=f"the rule health has no value 'etcd'; {valid}"):
        parse_assignments("health=etcd")
    with pytest.raises(ValueError, match=f"the rule health needs a value; {valid}"):
        parse_assignments("health")


def test_documentation_has_the_table() -> None:
    text = (ROOT / "docs/profiles.md").read_text().partition("\n## The rules\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [row(one) for one in TABLE], "docs/profiles.md should have:\n" + "\n".join(map(row, TABLE))


def row(one: Rule) -> str:
    first, second = one.documents, one.v1_25
    return f"| `{one.name}` | `{first.word}`: {first.does} | `{second.word}`: {second.does} | {one.source} |"


def test_no_other_module_asks_for_the_dialect_to_decide_a_rule() -> None:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0]
        text = path.read_text()
        if package == "journal" or path == SOURCE / "actors/profile.py":
            continue
        if re.search(r"dialect|CLUSTER|KUBERNETES", text):
            module = path.relative_to(SOURCE if package in ("actors", "gateway") else ROOT).as_posix()
            found |= {(module, ast.unparse(node)) for node in ast.walk(ast.parse(text)) if _asks(node)}
    assert not found - ABOUT_NAMES, "put it into the table of actors/profile.py"
    assert not ABOUT_NAMES - found, "no longer there"


def _asks(node: ast.AST) -> bool:
    """Whether it compares a dialect or the names of one, or looks something up by a dialect."""
    if isinstance(node, ast.Compare):
        return any(map(_is_dialect, (node.left, *node.comparators)))
    if isinstance(node, ast.Subscript):
        return _is_dialect(node.slice)
    return isinstance(node, ast.Match) and _is_dialect(node.subject)


def _is_dialect(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ("dialect", "CLUSTER", "KUBERNETES")
