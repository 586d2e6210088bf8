"""`rewound config print`: what holds, and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.gateway.settings.settings import Settings
from rewound.journal import Journal
from rewound.server.flags.parser import parse_flags


def test_settings_have_their_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal.open(tmp_path / "data" / "journal", dialect="kubernetes").close()
    (tmp_path / "a.yaml").write_text("\nnodes: 3\ndata-dir: data\n")
    flags = ["--secure-port=7443", f"--config={tmp_path}/a.yaml"]
    assert main(["config", "print", *flags]) == 0
    lines = capsys.readouterr().out.splitlines()

    def line(key: str) -> str:
        return next(" ".join(one.split()) for one in lines if one.startswith((f"{key}:", f"# {key}:")))

    assert line("secure-port") == "secure-port: 7443 # flag"
    assert line("nodes") == f"nodes: 3 # file: {tmp_path}/a.yaml, line 2"
    assert line("data-dir") == f"data-dir: {tmp_path}/data # file: {tmp_path}/a.yaml, line 3"
    assert line("dialect") == "dialect: kubernetes # data folder"
    assert line("event-ttl") == "event-ttl: 1h # default"
    assert line("follow") == "# follow: # not set"
    assert line("oidc-ca-file") == "# oidc-ca-file: # default: those of the host"

    assert main(["config", "print", "-o", "json", *flags]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["secure-port"] == {"name": "secure-port", "value": 7443, "source": "flag"}
    assert found["nodes"]["detail"] == f"{tmp_path}/a.yaml, line 2"
    assert "config" not in found


def test_output_is_a_file_for_the_same_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (
        [],
        [
            "--journal-retention=0,leases=1h",
            "--controllers=*,-garbagecollector",
            "--rule=service-name=optional",
        ],
    ):
        assert main(["config", "print", f"--data-dir={tmp_path}", *flags]) == 0
        (tmp_path / "printed.yaml").write_text(capsys.readouterr().out)
        expected, _ = parse_flags([f"--data-dir={tmp_path}", *flags])
        assert parse_flags([f"--config={tmp_path}/printed.yaml"])[0] == expected
    assert expected != Settings(data_dir=tmp_path)


def test_mistakes_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "print", "--secure-prt=1"]) == 2
    assert "did you mean --secure-port?" in capsys.readouterr().err
    assert main(["config"]) == 2
    assert "`rewound config print [flags of rewound serve]`" in capsys.readouterr().err
