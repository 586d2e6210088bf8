"""`rewound replay` on the command line: flags, commands on the terminal, and a folder that a server writes to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from rewound.actors.profile import Rules, choose_rules
from rewound.cli.access.flags import Parser
from rewound.cli.main import main
from rewound.cli.replay.flags import add_flags, asks_to_play, plays
from rewound.cli.replay.serving import Console, given_settings, written_kubeconfig
from rewound.gateway.settings.settings import Settings
from rewound.recording.replay.player import Moment
from rewound.recording.replay.replay import Plan
from tests.gateway.api import ADMIN, TOKENS, config_map, served
from tests.gateway.journal_commands import put, write_history
from tests.ports import reserve_port
from tests.recording.replay.replaying import replayed

CHANGED = Rules(bookmark="zero-values", health="kubernetes")


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replay", "--help"])
    text = capsys.readouterr().out
    assert "rewound replay rewound-data --since 12:00 --speed 10x" in text


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["missing"], 1, "there is no journal in missing"),
        (["{data}", "--kubeconfig", "{empty}"], 2, "--kubeconfig: {empty} exists already"),
        (["{data}", "--kubeconfig", "{empty}/no/file"], 2, "--kubeconfig: there is no folder {empty}/no"),
        (["{data}", "--at", "1", "--from", "1"], 2, "--at and --since: give one of them"),
        (["{data}", "--at", "77"], 2, "--at: 77 is not in the journal, which has 0 to 3"),
        (["{data}", "--at", "soon"], 2, "'soon' is not a moment"),
        (["{data}", "--speed", "fast"], 2, "--speed: 'fast' is not a speed"),
        (["{data}", "--to", "77"], 2, "--until: 77 is not in the journal, which has 0 to 3"),
        (["{data}", "--since", "3", "--until", "2"], 2, "--until: version 2 is before --since, version 3"),
        (
            ["{data}", "--at", "2020-01-01T00:00:00Z"],
            2,
            "--at: 2020-01-01T00:00:00.000000Z is before the first event: the recording has version 1 of "
            "2024-05-01T12:00:01.000000Z to version 3 of 2024-05-01T12:00:03.000000Z",
        ),
        (["{data}", "--until", "2020-01-01T00:00:00Z"], 2, "--until: 2020-01-01T00:00:00.000000Z is before"),
        (["{data}", "--from", "2024-05-02T12:00:00Z"], 2, "after the last event, version 3 of"),
        (["{data}", "--output", "json"], 2, "--output: only with --writable or --exit"),
        (["{data}", "--exit-code"], 2, "--exit-code: only with --writable, or with --stop-when and --exit"),
        (["{data}", "--settle", "1s"], 2, "--settle: only with --writable"),
        (["{data}", "--ignore-field", "data"], 2, "--ignore-field: only with --writable"),
        (["{data}", "--", "true"], 2, "a command after -- : only with --writable"),
        (
            ["{data}", "--until", "event.kind == 'ConfigMap' && object.dta.n == '1'"],
            2,
            "never holds: object has no field 'dta'; did you mean data?",
        ),
        (["{data}", "--show-secrets"], 2, "--show-secrets: only with --writable"),
        (["{data}", "--writable", "--keep", "{data}"], 2, "already has a journal; name a new folder"),
        (["{data}", "--profile", "v1"], 2, "--profile: 'v1' is not known; choose one of documents | v1.25"),
        (["{data}", "--rule", "health"], 2, "--rule: the rule health needs a value; give health=rewound or"),
        (["{data}", "--until", "object."], 2, "--stop-when: 'object.' is not an expression"),
        (["{data}", "--exit", "--paused"], 2, "it would never end"),
        (["{data}", "--writable", "--paused"], 2, "--paused: it applies no recorded writes; add --play"),
        (["{data}", "--writable", "--without", "x"], 2, "--without: it applies no recorded writes; add"),
        (["{data}", "--secure-port", "0"], 2, "--secure-port: is off and so is --insecure-port"),
        (["{empty}"], 1, "there is no journal in"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    write_history(tmp_path / "data", [put("a"), put("b"), put("c")])
    (tmp_path / "empty").mkdir()
    given = [one.format(data=tmp_path / "data", empty=tmp_path / "empty") for one in arguments]
    assert (
        main(
            [
                "replay",
                *([] if "--secure-port" in given else ["--secure-port", "0", "--insecure-port", "1"]),
                *given,
            ]
        )
        == code
    )
    assert says.format(empty=tmp_path / "empty") in capsys.readouterr().err


async def test_commands_of_the_terminal(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a", {"n": str(number)}) for number in range(20)])
    async with replayed(tmp_path, Plan(at=Moment(5, 0))) as replay:
        stop, control = trio.Event(), replay.api.control
        assert control is not None
        console = Console(control, replay.recording, stop)
        assert (await console.perform("status\n")).startswith("version 5 of 20, 2024-05-01T12:00:05")
        assert (await console.perform("\n")).startswith("version 6 ")
        assert (await console.perform("step 3\n")).startswith("version 9 ")
        assert (await console.perform("back 2\n")).startswith("version 7 ")
        assert (await console.perform("goto 12\n")).startswith("version 12 ")
        assert (await console.perform("goto 2024-05-01T12:00:03Z\n")).startswith("version 3 ")
        assert "not a number" in await console.perform("step many\n")
        assert "is not one of play, pause" in await console.perform("dance\n")
        assert "not in the recording, which has 0 to 20" in await console.perform("goto 21\n")
        assert "goto MOMENT" in await console.perform("help\n")
        assert "playing at max" in await console.perform("play max\n")
        await replay.stopped()
        assert (await console.perform("status\n")).endswith(": the end")
        await console.perform("quit\n")
        assert stop.is_set()


async def test_folder_of_a_running_server(tmp_path: Path) -> None:
    """In a separate process, because LMDB opens a file only once in a process."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        head = await api.head()
        command = [
            *(sys.executable, "-m", "rewound.cli.main", "replay", str(api.settings.data_dir)),
            *("--from", "1", "--speed", "max", "--exit", "--secure-port", "0"),
            *("--insecure-port", str(reserve_port()), "--token-auth-file", str(tokens)),
        ]
        with trio.fail_after(60):
            ended = await trio.run_process(command, capture_stdout=True)
        assert f"stopped at version {head} (" in ended.stdout.decode()
        await api.create("configmaps", config_map("b"))
        assert (await api.ask("GET", "/readyz")).text == "ok"


@pytest.mark.parametrize("output", ["text", "json"])
def test_writable_prints_how_it_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    write_history(tmp_path / "data", [put("a", {"n": str(number)}) for number in range(5)])
    arguments = [
        *("replay", str(tmp_path / "data"), "--writable", "--from", "2", "--speed", "max", "--exit"),
        *("--without", "alice", "--controllers", "none", "-o", output, "--keep", str(tmp_path / "kept")),
        *("--secure-port", "0", "--insecure-port", str(reserve_port()), "--token-auth-file", str(tokens)),
    ]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "in a copy that begins at version 2" in err
    if output == "json":
        document = json.loads(out)
        assert (document["same"], document["fork"], document["end"]) == (False, "2", "5")
        assert document["objects"][0]["changes"] == [{"path": "data.n", "before": "4", "after": "1"}]
    else:
        assert "~ configmaps default/a\n    recorded  3 writes by alice with kubectl (versions 3 to 5)" in out
        assert '    here      nothing\n    ~ data.n: "4" -> "1"' in out
        assert "1 of 1 object differs from version 2 to 5" in out
    assert (tmp_path / "kept" / "journal" / "data.mdb").exists()


@pytest.mark.parametrize(("written", "code"), [("4", 0), ("9", 3)])
def test_exit_code_says_whether_until_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str, code: int
) -> None:
    write_history(tmp_path / "data", [put("a", {"n": str(number)}) for number in range(8)])
    arguments = [
        *("replay", str(tmp_path / "data"), "--speed", "max", "--stop-when", f"object.data.n == '{written}'"),
        *("--exit", "--exit-code", "-o", "json", "--secure-port", "0"),
        *("--insecure-port", str(reserve_port()), "--token-auth-file", str(_tokens(tmp_path))),
    ]
    assert main(arguments) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["held"], document["version"]) == (code == 0, "5" if code == 0 else "8")


def test_exit_code_says_whether_the_copy_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing makes the writes that are left out, so the copy differs; it is equal if all of them are applied."""
    write_history(tmp_path / "data", [put("a", {"n": str(number)}) for number in range(5)])
    for without, code in (("alice", 3), ("bob", 0)):
        arguments = [
            *("replay", str(tmp_path / "data"), "--writable", "--from", "2", "--speed", "max", "--exit"),
            *("--without", without, "--controllers", "none", "--exit-code", "-o", "json"),
            *("--secure-port", "0", "--insecure-port", str(reserve_port())),
            *("--token-auth-file", str(_tokens(tmp_path))),
        ]
        assert main(arguments) == code
        out, err = capsys.readouterr()
        failures = json.loads(out)["failures"]
        assert failures == (["1 of 1 object differs from version 2 to 5"] if code else [])
        assert all(f"rewound: {failure}" in err for failure in failures)


CONTROLLER = """
import json, sys, time, urllib.request
url, headers = sys.argv[1], {"authorization": "Bearer %s", "content-type": "application/json"}
maps = url + "/api/v1/namespaces/default/configmaps"
watch = urllib.request.urlopen(urllib.request.Request(maps + "?watch=1", headers=headers))
for line in watch:
    event = json.loads(line)
    found = event["object"]
    if event["type"] == "MODIFIED" and found["data"].get("shade") != found["data"]["n"]:
        found["data"]["shade"] = found["data"]["n"]
        body = json.dumps(found).encode()
        request = urllib.request.Request(maps + "/a", body, headers, method="PUT")
        try:
            urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            assert error.code == 409  # the next event has a newer one
print("watched", flush=True)
"""


def test_command_runs_beside_the_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Other writers set n; the recorded robot followed with shade, which the controller under test now does."""
    known = {"uid": "5f7d8a9e-3a63-4c5f-9d53-0d3b0f6f1c11", "creationTimestamp": "2024-05-01T12:00:01Z"}
    steps = [put("a", {"n": "0", "shade": "0"}, metadata=known)]
    for number, shade in (("1", "0"), ("2", "1")):
        steps.append(put("a", {"n": number, "shade": shade}, metadata=known))
        steps.append(put("a", {"n": number, "shade": number}, metadata=known, user="robot"))
    write_history(tmp_path / "data", steps)
    port = str(reserve_port())
    arguments = [
        *("replay", str(tmp_path / "data"), "--writable", "--from", "1", "--speed", "max"),
        *("--without", "robot", "--controllers", "none", "--settle", "3s", "--timeout", "60s"),
        *("--exit-code", "-o", "json", "--secure-port", "0", "--insecure-port", port),
        *("--token-auth-file", str(_tokens(tmp_path)), "--"),
    ]
    program = [sys.executable, "-c", CONTROLLER % ADMIN, f"http://127.0.0.1:{port}"]
    assert main([*arguments, *program]) == 0
    out, _ = capfd.readouterr()
    (one,) = json.loads(out)["objects"]
    assert one["same"] and one["here"]["writes"] and len(one["recorded"]["writes"]) == 2
    assert main([*arguments, sys.executable, "-c", "raise SystemExit(7)"]) == 3
    assert f"rewound: {sys.executable} ended with exit code 7" in capfd.readouterr().err
    assert main([*arguments, str(tmp_path / "missing")]) == 3
    assert "missing: No such file or directory" in capfd.readouterr().err


def _tokens(folder: Path) -> Path:
    file = folder / "tokens"
    file.write_text(TOKENS)
    return file


@pytest.mark.parametrize("flag", ["--play", "--without=x", "--controllers=none", "--keep=x"])
def test_flags_of_a_copy_need_writable(tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str) -> None:
    write_history(tmp_path, [put("a")])
    assert main(["replay", str(tmp_path), flag]) == 2
    assert "only with --writable" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("shown", [False, True])
def test_values_of_secrets_are_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str, shown: bool
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    values = ("Zmlyc3Q=", "c2Vjb25k", "dGhpcmQ=")
    write_history(tmp_path / "data", [put("key", {"k": one}, type_name="secrets") for one in values])
    arguments = [
        *("replay", str(tmp_path / "data"), "--writable", "--from", "2", "--speed", "max", "--exit"),
        *(
            "--without",
            "alice",
            "--controllers",
            "none",
            "-o",
            output,
            *(["--show-secrets"] if shown else []),
        ),
        *("--secure-port", "0", "--insecure-port", str(reserve_port()), "--token-auth-file", str(tokens)),
    ]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert ("dGhpcmQ=" in out, "c2Vjb25k" in out) == (shown, shown)
    assert "data.k" in out and "default/key" in out.replace(
        '"namespace": "default",\n      "name": "', "default/"
    )


def test_paused_copy_may_end_after_it_was_played() -> None:
    """A client starts it; read-only, `--exit` and `--paused` exclude each other."""
    parser = Parser("rewound replay", "")
    add_flags(parser)
    assert plays(parser.parse_args(["data", "--writable", "--play", "--paused", "--exit"]))
    waiting = parser.parse_args(["data", "--paused", "--speed", "2x"])
    assert asks_to_play(waiting) and not plays(waiting)


def test_sigterm_before_the_start_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def import_interrupted(source: Path, folder: Path, report: object) -> None:
        folders.append(folder)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("rewound.cli.replay.serving.open_source", import_interrupted)
    with pytest.raises(SystemExit, match="143"):
        main(["replay", str(tmp_path), "--secure-port", "0", "--insecure-port", "1"])
    assert not folders[0].exists()


def test_kubeconfig_is_never_readable_by_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Settings(data_dir=tmp_path)
    chosen.kubeconfig.write_text("key")
    monkeypatch.setattr(os, "chmod", lambda *_, **__: None)  # the mode is right from the start
    monkeypatch.setattr(shutil, "copymode", lambda *_, **__: None)
    written = written_kubeconfig(tmp_path / "copy", chosen)
    assert (written, written.read_text()) == (tmp_path / "copy", "key")
    assert written.stat().st_mode & 0o777 == 0o600
    assert written_kubeconfig(None, chosen) == chosen.kubeconfig


def test_replay_follows_the_rules_of_its_flags_or_of_the_dialect() -> None:
    parser = Parser("rewound replay", None)
    add_flags(parser)
    for arguments, dialect, rules in (
        ([], "kubernetes", choose_rules("kubernetes")),
        ([], "cluster", choose_rules("cluster")),
        (
            ["--profile=documents", "--rule=bookmark=zero-values", "--rule=health=kubernetes"],
            "kubernetes",
            CHANGED,
        ),
    ):
        given = given_settings(parser.parse_args(["data", *arguments]))
        assert Settings(**given, dialect=dialect).rules == rules
