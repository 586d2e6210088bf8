"""`rewound rules`: rules tried on the past of a folder, a file and a server; what there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import rewound
from rewound.cli.main import main
from rewound.testing.fixture.rewound import Rewound
from tests.cases import cases

RULES = """\
apiVersion: rewound.cluster.io/v1alpha1
kind: Rules
rules:
- name: large
  expression: event.kind == "ConfigMap" && int(object.data.size) > 5
  message: '{{ event.name }} has {{ object.data.size }}'
builtIn:
  fights: {turns: 3}
  refused-bursts: {requests: 2}
"""


MAPS = "/api/v1/namespaces/default/configmaps"
Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[Rewound]:
    """Two controllers set a field in turn; one object is large, and two requests are refused."""
    with rewound.start() as running:
        for name, size in (("a", "0"), ("b", "7")):
            running.request("POST", MAPS, config_map(name, size))
        for at in range(1, 6):
            manager = f"controller-{at % 2}"
            running.request("PUT", f"{MAPS}/a?fieldManager={manager}", config_map("a", str(at)))
        for _ in range(2):
            with pytest.raises(rewound.RequestFailed):
                running.request("POST", MAPS, config_map("No", "1"))
        yield running


def config_map(name: str, size: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"size": size}}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return str(path)


def run(capsys: Output, *arguments: str) -> dict[str, Any]:
    assert main(["rules", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = orjson.loads(capsys.readouterr().out)
    return found


def alerts_of(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["message"]) for one in found["alerts"]]


def test_the_past_gives_the_same_alerts_wherever_it_is_read(
    server: Rewound, rules: str, capsys: Output
) -> None:
    export = Path(rules).with_name("export.journal.gz")
    assert main(["export", str(export), "--data-dir", str(server.data_dir)]) == 0
    capsys.readouterr()
    with_events = {"large", "fights"}
    sources = {
        "folder": ["--data-dir", str(server.data_dir)],
        "file": ["--file", str(export)],
        "server": ["--kubeconfig", str(server.kubeconfig)],
    }
    found = {name: run(capsys, "test", rules, *flags) for name, flags in sources.items()}
    expected = [
        ("large", "b has 7"),
        (
            "fights",
            "admin (controller-1) and admin (controller-0) set data.size of ConfigMap default/a in turn: "
            "3 times within 5m",
        ),
    ]
    for name, one in found.items():
        own = [alert for alert in one["alerts"] if alert["rule"] in with_events]
        assert [(alert["rule"], alert["message"]) for alert in own] == expected, name
        assert [alert["id"] for alert in own] == [alert["id"] for alert in found["folder"]["alerts"][:2]], (
            name
        )
        assert one["events"] == found["folder"]["events"], name
    assert [rule for rule, _ in alerts_of(found["folder"])] == ["large", "fights", "refused-bursts"]
    assert alerts_of(found["server"]) == alerts_of(found["folder"])
    costs = {one["name"]: one for one in found["folder"]["rules"]}
    assert costs["large"]["evaluations"] > 0 < costs["large"]["cost"]["most"]
    assert costs["large"]["alerts"] == costs["large"]["stillFiring"] == 1


def test_since_and_until(server: Rewound, rules: str, capsys: Output) -> None:
    folder = ["--data-dir", str(server.data_dir)]
    whole = run(capsys, "test", rules, *folder)
    large = next(one for one in whole["alerts"] if one["rule"] == "large")
    version = int(large["version"])
    before = run(capsys, "test", rules, *folder, "--until", str(version - 1))
    assert alerts_of(before) == []
    from_it = run(capsys, "test", rules, *folder, "--since", str(version), "--until", str(version))
    assert alerts_of(from_it) == [("large", "b has 7")]
    week = run(capsys, "test", rules, *folder, "--since", "7d")  # the journal is younger
    assert week["events"] == whole["events"]


def test_text(server: Rewound, rules: str, capsys: Output) -> None:
    flags = ["--data-dir", str(server.data_dir), "--page-url", "https://rewound.example/"]
    assert main(["rules", "test", rules, *flags, "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("warning   large: b has 7")
    assert (
        "still firing; https://rewound.example/debug/journal/#object=configmaps%2Fdefault%2Fb&at=" in lines[1]
    )
    assert lines[2] == "... and 2 more; --limit prints them"
    assert lines[4].startswith("fights           1 alerts, ") or "1 alerts; 1 still firing" in lines[4]
    assert lines[-1].endswith("s of processor time; 3 alerts")


def test_list(rules: str, capsys: Output) -> None:
    found = {one["name"]: one for one in run(capsys, "list", rules)["rules"]}
    assert found["large"]["meaning"] == 'event.kind == "ConfigMap" && int(object.data.size) > 5'
    assert found["fights"]["parameters"] == {"turns": 3, "window": "5m", "exceptKinds": ["leases", "events"]}
    assert main(["rules", "list"]) == 0
    assert "stuck-deletions  warning  an object is being deleted for long" in capsys.readouterr().out


@cases(
    "arguments, code, error",
    [
        ([], 2, "rules: the commands are `rewound rules list`, `rewound rules test`, `rewound rules watch`"),
        (["tets"], 2, "rules: the commands are"),
        (["test", "missing.yaml"], 1, "missing.yaml: No such file or directory; check the path"),
        (["test", "--since", "soon"], 2, "--since: 'soon' is not a moment"),
        (["test", "-n", "shop"], 2, "--namespace: rules see all namespaces"),
        (["test", "--limit", "0"], 2, "--limit: '0' is not a number from 1 up"),
    ],
)
def test_errors(arguments: list[str], code: int, error: str, capsys: Output) -> None:
    assert main(["rules", *arguments]) == code
    assert error in capsys.readouterr().err


def test_a_wrong_file(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES.replace("event.kind", "event.knd"))
    assert main(["rules", "test", str(path), "--data-dir", str(tmp_path)]) == 1
    assert f"rewound: {path}: rules[0] (large).expression: ERROR: <input>:1:6" in capsys.readouterr().err
