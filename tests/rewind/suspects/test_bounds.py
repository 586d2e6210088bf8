"""A search reads a bounded part of a large journal, finds the cause among much else, and says what it left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.rewind.long_work import run
from rewound.journal import Journal
from rewound.rewind.suspects import past
from rewound.rewind.suspects.past import Everything, Name, Past
from rewound.rewind.suspects.suspects import find_suspects
from tests.gateway.journal_commands import Step, put, write_history

NODES = 500  # more than the objects of one search


def node(number: int, beat: int, **spec: Any) -> Step:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": str(beat)}
    return Step(f"node-{number}", {"spec": spec, "status": {"conditions": [ready]}}, "", "nodes", "kubelet")


def waiting() -> Step:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{NODES} nodes are available: 1 node(s) were unschedulable, {NODES - 1} Insufficient cpu.",
    }
    return Step(
        "web", {"spec": {}, "status": {"phase": "Pending", "conditions": [condition]}}, "shop", "pods"
    )


def suspects(folder: Path) -> dict[str, Any]:
    journal = Journal.open(folder / "journal", readonly=True)
    try:
        upto = Past(journal, past.keys.LARGEST_OFFSET, Everything())
        found = run(find_suspects(upto, Name("pods", "shop", "web"), 0, []))
    finally:
        journal.close()
    assert found is not None
    return found


def test_a_cordoned_node_among_hundreds_with_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [node(number, 0) for number in range(NODES)]
    steps += [node(7, 1, unschedulable=True)]
    steps += [node(number, 2, **({"unschedulable": True} if number == 7 else {})) for number in range(NODES)]
    steps += [put(f"other-{number}", {"a": "b"}, namespace="shop") for number in range(100)]
    write_history(tmp_path, [*steps, waiting()])
    found = suspects(tmp_path)
    assert found["items"][0]["name"] == "node-7"
    assert found["looked"]["objects"] <= 400
    assert found["looked"]["events"] < 4 * NODES
    monkeypatch.setattr(past, "MAX_READ", 100)
    monkeypatch.setattr(past, "MAX_LINKS", 50)
    found = suspects(tmp_path)
    assert found["looked"]["events"] <= 100
    assert "nodes: only their newest 50 changes in this time" in found["leftOut"]
