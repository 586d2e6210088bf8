"""The dynamic client of the official Python package goes through the life of a custom resource."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rewound.testing.fixture.rewound import Rewound
from tests.clients.program import program
from tests.clients.shops import DEFINITION, shop

PROGRAM = Path(__file__).parent / "python" / "dynamic.py"


async def test_dynamic_client_works_with_a_custom_kind(
    python_clients: dict[str, str], rewound: Rewound, tmp_path: Path
) -> None:
    definition, corner = tmp_path / "definition.json", tmp_path / "corner.json"
    definition.write_text(json.dumps(DEFINITION))
    corner.write_text(json.dumps(shop("corner", "red")))
    command = [sys.executable, str(PROGRAM), str(rewound.kubeconfig), str(definition), str(corner)]
    async with program(command, {**python_clients, "HOME": str(tmp_path)}) as client:
        assert await client.ended() == 0, client.errors
    steps = [json.loads(line) for line in client.lines]
    assert [step for step in steps if step[0] != "watched"] == [
        ["established", "shops.example.com"],
        ["discovered", ["shops", "Shop", True, ["scale", "status"]]],
        ["created", {"colour": "red", "tills": 1}],
        ["replaced", "blue"],
        ["conflict", 409],
        ["patched", {"town": "north"}],
        ["applied", ["red", "Apply"]],
        ["listed", ["ShopList", ["corner"]]],
        ["status", "Open"],
        ["scaled", ["Scale", 4, {"replicas": 1, "selector": "shop=corner"}]],
        ["tills", 4],
        ["deleted", 404],
        ["retired", "shops.example.com"],
    ]
    assert watched(steps) == [
        ["MODIFIED", "corner", "blue", 1],
        ["MODIFIED", "corner", "blue", 1],  # the label
        ["MODIFIED", "corner", "red", 1],
        ["MODIFIED", "corner", "red", 1],  # the status
        ["MODIFIED", "corner", "red", 4],
        ["DELETED", "corner", "red", 4],
    ]


def watched(steps: list[Any]) -> list[Any]:
    return [found for step, found in steps if step == "watched"]
