"""`rewound since`: what differs from a moment, without noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.journal_commands import Step, delete, put, run_journal, write_history


def pod(name: str, phase: str, image: str = "web:1", **more: Any) -> Step:
    content = {"spec": {"containers": [{"name": "main", "image": image}]}, "status": {"phase": phase}}
    return Step(name, content, type_name="pods", **more)


STEPS = [
    put("settings", {"color": "blue"}),
    pod("web", "Pending"),
    pod("db", "Pending"),
    put("old", {"a": "b"}),
    Step("node-0", {"spec": {"renewTime": "1"}}, type_name="leases.coordination.cluster.io"),
    # All is well at 5.
    put("settings", {"color": "red"}, user="bob"),
    pod("web", "Running", "web:2", metadata={"generation": 2}),
    pod("db", "Running", metadata={"generation": 2}),
    delete("old"),
    Step("node-0", {"spec": {"renewTime": "2"}}, type_name="leases.coordination.cluster.io"),
    Step("web.1", {"reason": "Started"}, type_name="events"),
]


def test_differences_without_noise(tmp_path: Path) -> None:
    write_history(tmp_path, STEPS)
    result = run_journal("since", "5", "--data-dir", tmp_path)
    assert result.code == 0, result.err
    assert sorted(line.split("  ")[0] for line in result.lines if line[0] in "+-~") == [
        "- ConfigMap default/old",
        "~ ConfigMap default/settings",
        "~ Pod default/web",
    ]
    assert '"blue" -> "red"' in result.out and "last update by bob" in result.out
    assert "status" not in result.out and "generation" not in result.out
    assert result.lines[-1].startswith("1 deleted, 2 changed between 5 (")
    noisy = run_journal("since", "5", "--noise", "--data-dir", tmp_path).out
    assert "status.phase" in noisy and "renewTime" in noisy and "Pod default/db" in noisy


def test_one_object_and_some_kinds(tmp_path: Path) -> None:
    write_history(tmp_path, STEPS)
    one = run_journal("since", "5", "pod/web", "--data-dir", tmp_path)
    assert "web:2" in one.out and "settings" not in one.out
    assert "nothing changed between" in run_journal("since", "5", "pod", "db", "--data-dir", tmp_path).out
    kinds = run_journal("since", "5", "cm", "-o", "json", "--data-dir", tmp_path).document
    assert [one["name"] for one in kinds["changed"]] == ["settings"]
    assert [one["name"] for one in kinds["deleted"]] == ["old"]
    assert run_journal("since", "soon", "--data-dir", tmp_path).code == 2
    assert run_journal("since", "5", "pod", "a", "b", "--data-dir", tmp_path).code == 2
