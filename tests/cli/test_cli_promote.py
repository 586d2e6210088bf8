"""`rewound promote` turns a standby's folder into a leader's, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.journal import Journal
from tests.journal.model import Model
from tests.journal.streaming import Receiver, stream_of


def make_copy(folder: Path) -> None:
    leader, model = Journal.open(folder / "leader" / "journal"), Model()
    leader.register_type("configmaps")
    leader.append([model.put("a"), model.put("b")])
    receiver = Receiver(folder / "standby" / "journal")
    receiver.receive(stream_of(leader))
    receiver.close()
    leader.close()


def test_promote_turns_a_standby_into_a_leader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_copy(tmp_path)
    standby = str(tmp_path / "standby")
    assert main(["promote", "--data-dir", standby]) == 0
    out = capsys.readouterr().out
    assert "is that of a leader now, on a timeline of its own since version 2" in out
    assert f"rewound serve --data-dir {standby}" in out
    Journal.open(tmp_path / "standby" / "journal").close()


@pytest.mark.parametrize(
    ("given", "code", "why"),
    [
        (["--data-dir", "leader"], 1, "is not that of a standby"),
        (["--data-dir", "nowhere"], 1, "there is no journal in"),
        (["--data-dir"], 2, "expected one argument"),
        (["standby"], 2, "unrecognized arguments: standby"),
    ],
)
def test_promote_refuses_unsuitable_folders(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    code: int,
    why: str,
) -> None:
    make_copy(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["promote", *given]) == code
    assert why in capsys.readouterr().err
