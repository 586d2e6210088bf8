from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal, retention
from tests.gateway.journal_commands import Result, Step, delete, put, run_journal, write_history


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(
        tmp_path,
        [
            put("web", {"color": "blue"}),
            put("web2", {"color": "x"}),
            put("web", {"color": "red", "size": "xl"}, user="bob"),
            put("prod", namespace="", type_name="namespaces"),
            delete("web", user="carol"),
            put("web", {"color": "green"}),
            put("web", {"color": "green"}, namespace="other"),
        ],
    )
    return tmp_path


def history(folder: Path, *words: str) -> Result:
    result = run_journal("history", *words, f"--data-dir={folder}")
    assert (result.code, result.err) == (0, "")
    return result


def test_history_has_a_line_for_each_version_across_deletion(folder: Path) -> None:
    title, *lines = history(folder, "cm", "default/web").lines
    assert title.split() == ["VERSION", "TIME", "USER", "VERB", "MANAGER", "WHAT"]
    found = [line.split(maxsplit=6) for line in lines]
    assert [(words[0], words[3], words[4], words[6]) for words in found] == [
        ("6", "alice", "create", "created: 1 key"),
        ("5", "carol", "delete", "removed"),
        ("3", "bob", "update", "data.color blue → red, + data.size xl"),
        ("1", "alice", "create", "created: 1 key"),
    ]
    assert history(folder, "cm", "web").lines == [title, *lines]
    assert history(folder, "cm", "web", "-n", "default").lines == [title, *lines]


def test_every_change_has_a_line_if_that_is_wanted(folder: Path) -> None:
    lines = history(folder, "cm", "web", "--changes").lines
    assert lines[3].endswith("2 changes")
    assert [line.strip() for line in lines[4:6]] == ['~ data.color: "blue" -> "red"', '+ data.size: "xl"']


def test_cluster_scoped_object_has_a_name_only(folder: Path) -> None:
    assert [line.split()[0] for line in history(folder, "Namespace", "prod").lines] == ["VERSION", "4"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--limit", "2"], ["6", "5"]),
        (["--tail", "2", "--reverse"], ["5", "6"]),
        (["--reverse"], ["1", "3", "5", "6"]),
        (["--field", "data.size"], ["3"]),
        (["--field", "/data/color", "--limit", "2"], ["6", "3"]),
        (["--field", "data"], ["6", "3", "1"]),
    ],
)
def test_history_with_filters(folder: Path, flags: list[str], expected: list[str]) -> None:
    items = history(folder, "configmaps", "default/web", "-o", "json", *flags).document["items"]
    assert [version["version"] for version in items] == expected


def test_history_as_json(folder: Path) -> None:
    document = history(folder, "cm", "default/web", "-o", "json").document
    assert document["kind"] == "History"
    assert document["object"]["kind"] == "ConfigMap"
    assert document["items"][2]["changes"][0] == {"path": "data.color", "before": "blue", "after": "red"}
    assert document["items"][2]["patch"][1] == {"op": "replace", "path": "/data/color", "value": "red"}


def deployment(replicas: int, ready: int) -> Step:
    containers = [{"name": "log", "image": "log:1"}, {"name": "web", "image": f"web:{replicas}"}]
    content = {"spec": {"replicas": replicas, "containers": containers}, "status": {"readyReplicas": ready}}
    return Step("web", content, type_name="deployments.apps")


def test_changes_of_a_field_and_without_those_of_the_status(tmp_path: Path) -> None:
    steps = [deployment(2, 0), deployment(2, 2), deployment(5, 2), deployment(5, 3), deployment(1, 1)]
    write_history(tmp_path, [*steps, delete("web", type_name="deployments.apps")])
    shown = history(tmp_path, "deploy", "web", "--field", "spec.replicas").lines[1:]
    assert [(line.split()[0], line.split(maxsplit=6)[6]) for line in shown] == [
        ("5", "spec.replicas 5 → 1"),
        ("3", "spec.replicas 2 → 5"),
        ("1", "+ spec.replicas 2"),
    ]
    images = history(tmp_path, "deploy", "web", "--field", "spec.containers[name=web].image").lines
    assert images[1].endswith("spec.containers[name=web].image web:5 → web:1")
    items = history(tmp_path, "deploy", "web", "--no-status", "-o", "json").document["items"]
    assert [item["version"] for item in items] == ["6", "5", "3", "1"]
    assert not [one for item in items for one in item["changes"] if one["path"].startswith("status")]
    missing = run_journal("history", "deploy", "web", "--field", "spec.relpicas", f"--data-dir={tmp_path}")
    assert (missing.code, missing.out) == (1, "")
    assert (
        "in the journal changed a field 'spec.relpicas'; `rewound blame deploy/web` lists its fields"
        in missing.err
    )


def test_history_says_when_the_content_before_is_compacted(folder: Path) -> None:
    journal = Journal.open(folder / "journal")
    while not retention.advance(journal, 3).done:
        pass
    journal.close()
    lines = history(folder, "cm", "default/web").lines
    assert lines[-1].endswith("what it changed is no longer in the journal")
    assert [line.split()[0] for line in lines[1:]] == ["6", "5", "3"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["ns", "a/b"], 2, "namespaces are cluster-scoped; write the name alone: b"),
        (["cm", "default/w*"], 2, "'default/w*' is not one object"),
        (["cm", "a/b/c"], 2, "'a/b/c' is not a name"),
        (["cm", "other/web", "-n", "default"], 2, "--namespace: 'default' is not the namespace of other/web"),
        (["cm", "web", "--field", "spec..x"], 2, "--field: 'spec..x' is not a field; write it like spec."),
        (
            ["cm", "default/nobody"],
            1,
            "no version of configmaps nobody in namespace default is in the journal in",
        ),
        (["cm", "nowhere/web"], 1, "there is no namespace 'nowhere' in the journal in"),
    ],
)
def test_wrong_arguments_are_refused(folder: Path, words: list[str], code: int, why: str) -> None:
    result = run_journal("history", *words, f"--data-dir={folder}")
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"rewound: {why}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["cm", "wbe2"], "; did you mean web2?"),
        (["cm", "web2", "-n", "other"], "; there is one in namespace default: add -n default"),
        (["cm", "nobody"], "; `rewound log` shows what there is"),
    ],
)
def test_object_that_never_existed_gets_a_hint(folder: Path, words: list[str], hint: str) -> None:
    for command in (["history", *words], ["blame", *words], ["diff", "1", *words], ["at", "7", *words]):
        result = run_journal(*command, f"--data-dir={folder}")
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("rewound: no version of configmaps ") and result.err.endswith(
            hint + "\n"
        )
