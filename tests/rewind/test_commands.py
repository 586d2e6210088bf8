"""`rewound history`, `blame`, `rollback`, `undelete` and `at`, against a server and against a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.client.command import Ended, Run, runner
from tests.gateway.api import config_map
from tests.gateway.https import served_securely
from tests.gateway.journal_commands import delete, put, write_history


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, capsys, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(
        tmp_path / "data",
        [
            put("web", {"color": "blue", "size": "1"}),
            put("web", {"color": "red", "size": "1"}, user="bob", manager="deployer"),
            put("key", {"password": "bGVha2Vk"}, type_name="secrets"),
            put("key", {"password": "Y2hhbmdlZA=="}, type_name="secrets"),
            put("gone", {"a": "b"}),
            delete("gone", user="carol"),
            put("one", namespace="", type_name="nodes"),
            put("lost", {"password": "bGVha2Vk"}, type_name="secrets"),
            delete("lost", type_name="secrets"),
        ],
    )
    return tmp_path / "data"


def test_history_of_a_folder(run: Run, folder: Path) -> None:
    ended = run("history", "cm", "web", "--data-dir", folder)
    assert (ended.code, ended.err) == (0, "")
    lines = [line.split() for line in ended.out.splitlines()[1:]]
    assert lines[0][0] == "2" and " ".join(lines[0][3:]) == "bob update deployer data.color blue → red"
    assert " ".join(lines[1][3:]) == "alice create kubectl created: 2 keys"
    documents = json.loads(run("history", "configmaps", "web", "--data-dir", folder, "-o", "json").out)
    assert [one["version"] for one in documents["items"]] == ["2", "1"]
    assert run("history", "cm", "web", "--limit", "1", "--data-dir", folder).out.count("kubectl") == 0
    gone = run("history", "cm", "gone", "--data-dir", folder).out.splitlines()
    assert " ".join(gone[1].split()[3:]) == "carol delete kubectl removed"
    assert run("history", "node", "one", "--data-dir", folder).code == 0
    diff = run("history", "cm", "web", "--diff", "1..2", "--data-dir", folder)
    assert diff.out == '~ data.color: "blue" -> "red"\n'
    document = json.loads(
        run("history", "cm", "web", "--diff", "1..2", "-o", "json", "--data-dir", folder).out
    )
    assert document["changes"] == [{"path": "data.color", "before": "blue", "after": "red"}]
    for ends, lines in (("2..2", "nothing changed\n"), ("4..5", "+ the object\n"), ("5..", "- the object\n")):
        name = "web" if ends == "2..2" else "gone"
        assert run("history", "cm", name, "--diff", ends, "--data-dir", folder).out == lines


def test_blame_of_a_folder(run: Run, folder: Path) -> None:
    ended = run("blame", "cm", "web", "--data-dir", folder)
    assert (ended.code, ended.err) == (0, "")
    by_field = {line.split()[-2]: line for line in ended.out.splitlines()}
    assert "bob" in by_field["data.color:"] and "deployer" in by_field["data.color:"]
    assert "alice" in by_field["data.size:"]
    only = run("blame", "cm", "web", "--field", "data.", "--at", "1", "--data-dir", folder).out.splitlines()
    assert len(only) == 2 and all("alice" in line for line in only)


def test_objects_of_a_folder_as_they_were(run: Run, folder: Path) -> None:
    shown = run("at", "1", "cm", "--data-dir", folder).out.splitlines()
    assert [line.split() for line in shown] == [["NAME", "DATA", "AGE"], ["web", "2", "<unknown>"]]
    assert (
        json.loads(run("at", "1", "cm", "web", "-o", "json", "--data-dir", folder).out)["data"]["color"]
        == "blue"
    )
    assert "color: red" in run("at", "now", "cm", "web", "-o", "yaml", "--data-dir", folder).out
    names = [line.split()[1] for line in run("at", "5", "cm", "-A", "--data-dir", folder).out.splitlines()]
    assert names == ["NAME", "gone", "web"]
    ahead = run("at", "99", "cm", "--data-dir", folder)
    assert (ahead.code, ahead.out) == (1, "") and "version 99 is ahead of the journal" in ahead.err


def test_restoring_from_a_folder_prints_the_object(run: Run, folder: Path) -> None:
    before = (folder / "journal" / "data.mdb").read_bytes()
    assert "color: blue" in run("rollback", "cm", "web", "--to", "1", "--data-dir", folder).out
    assert "a: b" in run("undelete", "cm", "gone", "--data-dir", folder).out
    refused = run("undelete", "cm", "web", "--data-dir", folder)
    assert (refused.code, refused.out) == (1, "") and "was not deleted" in refused.err
    assert (folder / "journal" / "data.mdb").read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ("history", "secret", "key"),
        ("history", "secret", "key", "--diff", "3..4"),
        ("history", "secret", "key", "-o", "json"),
        ("blame", "secret", "key"),
        ("at", "3", "secret", "key", "-o", "yaml"),
        ("rollback", "secret", "key", "--to", "3"),
        ("undelete", "secret", "lost"),
        ("undelete", "secret", "lost", "-o", "json"),
    ],
)
def test_values_of_secrets_are_masked(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    hidden = run(*command, "--data-dir", folder)
    writes = command[0] in ("rollback", "undelete")
    assert ("Warning: values of the Secret are masked" in hidden.err) == writes
    assert hidden.code == 0 and "***" in hidden.out
    assert "bGVha2Vk" not in hidden.out and "Y2hhbmdlZA" not in hidden.out
    shown = run(*command, "--show-secrets", "--data-dir", folder).out
    assert "bGVha2Vk" in shown or "Y2hhbmdlZA" in shown


@pytest.mark.parametrize(
    "command",
    ["history", "blame", "rollback", "undelete", "at", "why", "log", "diff", "show", "stats", "export"],
)
def test_help_has_an_example(run: Run, capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit):
        run(command, "--help")
    text = capsys.readouterr().out
    assert (
        f"rewound {command} " in text.partition("\n\n")[2] and "--data-dir" in text and "--kubeconfig" in text
    )


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["history", "cm"], 2, "'cm' names no object; write TYPE/NAME"),
        (["history", "nonsense", "x"], 2, "'nonsense' is not a kind of this journal"),
        (
            ["history", "cm", "nobody"],
            1,
            "no version of configmaps nobody in namespace default is in the journal",
        ),
        (["blame", "cm", "web", "--at", "yesterday"], 2, "is not a moment"),
        (["rollback", "cm", "web"], 2, "required: --to"),
        (["rollback", "cm", "web", "--to", "1", "--field", "metadata.uid"], 1, "the server maintains it"),
        (["history", "cm", "web", "--diff", "5"], 2, "are not two versions or times"),
        (["history", "cm", "web", "--diff", "1..", "--limit", "1"], 2, "--limit: has no effect with --diff"),
        (["at", "1", "cm", "web", "-A"], 2, "leave it out for one object"),
        (["at", "1", "cm", "-A", "-n", "x"], 2, "--namespace: has no effect with --all-namespaces"),
        (["at", "1", "cm,secrets", "web"], 2, "'web': one object has one kind, not 2"),
        (["at", "1", "cm", "-l", "a in (b"], 2, "--selector: "),
        (
            ["blame", "cm", "web", "--field", "spec"],
            1,
            "--field: configmaps web in namespace default has no field that begins with 'spec'",
        ),
        (["at", "1", "cm", "--as", "bob"], 2, "--as: has no effect with --data-dir; leave one of them out"),
        (["history", "cm", "web", "-s", "https://x"], 2, "--server: has no effect with --data-dir"),
    ],
)
def test_mistakes_are_explained(run: Run, folder: Path, arguments: list[str], code: int, text: str) -> None:
    ended = run(*arguments, "--data-dir", folder)
    assert (ended.code, ended.out) == (code, "")
    assert text in ended.err


async def test_commands_against_a_server(run: Run) -> None:
    async def rewound(*arguments: Any) -> Ended:
        return await trio.to_thread.run_sync(lambda: run(*arguments, "--kubeconfig", api.settings.kubeconfig))

    async with served_securely() as api:
        made = (await api.create("configmaps", config_map("web", color="blue")))["metadata"][
            "resourceVersion"
        ]
        await api.replace("configmaps", config_map("web", color="red"))
        history = await rewound("history", "cm", "web")
        assert (history.code, history.err) == (0, "")
        assert "data.color blue → red" in history.out and "created: 1 key" in history.out
        assert 'data.color: "red"' in (await rewound("blame", "cm", "web")).out
        assert "color: blue" in (await rewound("at", made, "cm", "web", "-o", "yaml")).out
        assert "web" in (await rewound("at", made, "cm", "-A")).out
        diff = await rewound("history", "cm", "web", "--diff", f"{made}..")
        assert (diff.code, diff.out, diff.err) == (0, '~ data.color: "blue" -> "red"\n', "")
        dry = await rewound("rollback", "cm/web", "--to", made, "--dry-run")
        title, change = dry.out.splitlines()
        assert title.startswith(f"cm/web rolled back to {made} (dry run, nothing is stored), version ")
        assert change == '  ~ data.color: "red" -> "blue"'
        rolled = await rewound("rollback", "cm", "web", "--to", made)
        assert rolled.out.startswith(f"cm/web rolled back to {made}, version ")
        assert (await api.get("configmaps", "web"))["data"] == {"color": "blue"}
        same = await rewound("rollback", "cm/web", "--to", made)
        assert same.out.startswith(
            f"cm/web not rolled back to {made}: it is the same already, nothing changed"
        )
        wrong = await rewound("rollback", "cm", "web", "--to", made, "--field", "spec.colour")
        missing = "fields: spec.colour: neither the object nor its old version has this field"
        assert (wrong.code, wrong.err) == (0, f"Warning: {missing}\n")
        await api.delete("configmaps", "web")
        assert (await rewound("history", "cm", "web", "--diff", f"{made}..")).out == "- the object\n"
        dry = await rewound("undelete", "cm", "web", "--dry-run")
        assert "undeleted (dry run, nothing is stored)" in dry.out and '+ data: {"color":"blue"}' in dry.out
        assert (await rewound("undelete", "cm", "web")).code == 0
        assert (await api.get("configmaps", "web"))["data"] == {"color": "blue"}
        again = await rewound("undelete", "cm", "web")
        assert (again.code, again.err) == (1, 'rewound: configmaps "web" already exists\n')
        unknown = await rewound("history", "xyzzy", "x")
        assert unknown.code == 2 and "'xyzzy' is not a kind of this server; there are " in unknown.err
        typo = await rewound("history", "confgmap", "x")
        assert (typo.code, typo.err) == (
            2,
            "rewound: 'confgmap' is not a kind of this server; did you mean configmap?\n",
        )
