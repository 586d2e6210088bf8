"""`rewound rules watch`: alerts of a folder and of a server as they fire."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.testing.fixture.rewound import Rewound


@pytest.mark.parametrize("place", ["folder", "url"])
def test_watch_prints_alerts_as_they_fire(rewound: Rewound, tmp_path: Path, place: str) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "apiVersion: rewound.cluster.io/v1alpha1\nkind: Rules\nrules:\n- {name: seen, expression: "
        "'event.kind == \"ConfigMap\" && event.name == \"watched\"', message: 'saw {{ event.name }}'}\n"
    )
    where = str(rewound.data_dir) if place == "folder" else rewound.url
    command = [sys.executable, "-m", "rewound", "rules", "watch", where, "--rules", str(rules), "-o", "json"]
    if place == "url":
        command += ["--kubeconfig", str(rewound.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            found: list[bytes] = []
            reader = threading.Thread(target=lambda: found.append(process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
            reader.start()
            for number in range(120):  # it may begin to watch after any of them
                body = {"metadata": {"name": "watched"}, "data": {"n": str(number)}}
                maps = "/api/v1/namespaces/default/configmaps"
                if number:
                    rewound.request("DELETE", f"{maps}/watched")
                rewound.request("POST", maps, body)
                reader.join(0.5)
                if found:
                    break
            assert found and found[0], (
                process.stderr.read() if process.poll() is not None and process.stderr else b""
            )
            alert = json.loads(found[0])
            assert (alert["rule"], alert["state"], alert["message"]) == ("seen", "firing", "saw watched")
        finally:
            process.kill()


def test_what_cannot_be_watched(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for given, why in (
        (["--file", "x"], "a file does not grow"),
        ([str(tmp_path), "--data-dir", "y"], "not both"),
        (["-n", "shop"], "rules see all namespaces"),
        (["--rules", str(tmp_path / "none")], "No such file"),
    ):
        assert main(["rules", "watch", *given]) in (1, 2)
        assert why in capsys.readouterr().err
