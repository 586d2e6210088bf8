"""A server, its data folder, and its export: every command shows the same for each, and fails with the same errors."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import orjson
import pytest

from rewound.cli.main import main
from rewound.recording.query import server_source
from rewound.testing.fixture.rewound import Rewound
from tests.client.command import served
from tests.gateway.journal_commands import Result, put, run_journal, write_history
from tests.gateway.processes import heed_ctrl_c
from tests.no_progress import COMMAND

SHOP = "/api/v1/namespaces/shop"

Sources = dict[str, list[str]]


ERRORS: list[tuple[list[str], int, str]] = [
    (["at", "now", "cm", "-n", "shpo"], 1, "there is no namespace 'shpo' in "),
    (["log", "-n", "shpo"], 1, ": did you mean 'shop'?"),
    (["history", "confgmap", "web"], 2, "'confgmap' is not a kind of this "),
    (["diff", "1", "confgmap"], 2, "; did you mean configmap?"),
    (["history", "cm", "web"], 1, "no version of configmaps web in namespace default is in "),
    (["blame", "cm", "web"], 1, "; there is one in namespace shop: add -n shop"),
    (["diff", "1", "cm", "shop/wbe"], 1, "; did you mean web?"),
    (
        ["at", "1", "cm", "shop/web"],
        1,
        "configmaps web in namespace shop did not exist then; `rewound history ",
    ),
    (
        ["blame", "cm", "shop/web", "--at", "1"],
        1,
        "configmaps web in namespace shop did not exist then; ",
    ),
    (["at", "2020-01-01", "cm"], 1, " is before the first event, of "),
    (["diff", "2020-01-01"], 1, " is before the first event, of "),
    (["diff", "2020-01-01", "cm", "shop/web"], 1, " is before the first event, of "),
    (["blame", "cm", "shop/web", "--at", "2020-01-01"], 1, " is before the first event, of "),
    (["log", "--until", "2020-01-01"], 1, " is before the first event, of "),
    (["at", "99999", "cm"], 1, "version 99999 is ahead of the journal, which is at "),
    (["diff", "1", "99999"], 1, "version 99999 is ahead of the journal, which is at "),
    (
        ["blame", "cm", "shop/web", "--at", "99999"],
        1,
        "version 99999 is ahead of the journal, which is at ",
    ),
    (["log", "--since", "99999"], 1, "version 99999 is ahead of the journal, which is at "),
    (["rollback", "cm", "shop/wbe", "--to", "3"], 1, "; did you mean web?"),
    (["rollback", "cm", "shop/web", "--to", "99999"], 1, "version 99999 is ahead of the journal"),
    (["undelete", "cm", "shop/wbe"], 1, "; did you mean web?"),
    (["show", "99999"], 1, "there is no event 99999 yet: the newest is "),
    (["at", "2999-01-01", "cm"], 1, " is in the future; take a time that has passed"),
    (
        ["log", "--since", "5", "--until", "3"],
        2,
        "--since (event 5) is after --until (event 3); exchange them",
    ),
]


@pytest.fixture
def sources(rewound: Rewound, tmp_path: Path) -> Sources:
    """The flags for each of the three sources, which contain the same history."""
    request = rewound.request
    request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    # What controllers create in it comes first.
    while not all(request("GET", f"{SHOP}/{one}")["items"] for one in ("configmaps", "serviceaccounts")):
        time.sleep(0.02)
    request("POST", f"{SHOP}/configmaps", {"metadata": {"name": "web"}, "data": {"color": "blue"}})
    request("PUT", f"{SHOP}/configmaps/web", {"metadata": {"name": "web"}, "data": {"color": "red"}})
    request("POST", f"{SHOP}/secrets", {"metadata": {"name": "key"}, "data": {"k": "bGVha2Vk"}})
    request("PUT", f"{SHOP}/secrets/key", {"metadata": {"name": "key"}, "data": {"k": "Y2hhbmdlZA=="}})
    request("POST", f"{SHOP}/configmaps", {"metadata": {"name": "gone", "labels": {"a": "b"}}})
    request("DELETE", f"{SHOP}/configmaps/gone")
    file = tmp_path / "x.journal.gz"
    exported = run_journal("export", file, "--kubeconfig", rewound.kubeconfig)
    assert (exported.code, exported.err) == (0, "")
    return {
        "server": [f"--kubeconfig={rewound.kubeconfig}"],
        "folder": [f"--data-dir={rewound.data_dir}"],
        "file": [f"--file={file}"],
    }


def same(sources: Sources, *words: str, file: bool = False) -> Result:
    """The output of a command, which is the same for each source. A file is imported each time, which takes a while."""
    names = ("server", "folder", "file") if file else ("server", "folder")
    first, *others = (run_journal(*words, *sources[name]) for name in names)
    for other in others:
        assert (other.code, other.out) == (first.code, first.out), words
    return first


@pytest.mark.rewound(fresh=True)
def test_each_source_shows_the_same_and_has_the_same_errors(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = same(sources, "history", "cm", "web", "-n", "shop", "-o", "json", file=True).document["items"]
    changed, made = (one["version"] for one in versions)
    assert "data.color blue → red" in same(sources, "history", "cm", "shop/web").out
    assert "data.color blue → red" in same(sources, "history", "cm", "shop/web", "--field", "data.color").out
    logged = same(sources, "log", "-n", "shop", "--kind=cm", "--kind=secrets", "--user=admin", file=True)
    assert len(logged.lines) == 7 and "bGVha2Vk" not in logged.out
    documents = same(sources, "log", "-n", "sh*", "--kind=cm", "--user=ad*", "-o", "json").documents
    assert [one["verb"] for one in documents] == ["create", "update", "create", "delete"]
    assert documents[1]["changes"] == [{"path": "data.color", "before": "blue", "after": "red"}]
    secrets = same(sources, "log", "--kind=secrets", "-n", "shop", "--show-secrets", "--user=admin").out
    assert "data.k bGVha2Vk → Y2hhbmdlZA==" in secrets
    assert same(sources, "log", "--tail", "2", "--reverse", "-n", "shop").out.count("gone") == 2
    assert same(sources, "log", "--user=nobody*", "--since", made).out == ""
    assert "*** (before)" in same(sources, "show", str(int(changed) + 2)).out
    assert same(sources, "show", changed, "-o", "yaml").code == 0
    assert (
        same(sources, "diff", made, "now", "cm", "web", "-n", "shop").out == '~ data.color: "blue" -> "red"\n'
    )
    assert (
        same(sources, "diff", f"{changed}..{made}", "cm", "shop/web").out == '~ data.color: "red" -> "blue"\n'
    )
    everything = same(sources, "diff", made, changed, "cm,secrets", "-o", "json", file=True).document
    assert [one["name"] for one in everything["changed"]] == ["web"] and not everything["backward"]
    back = same(sources, "diff", "now", made, "-n", "shop").out
    assert back.startswith("~ ConfigMap shop/web")
    monkeypatch.setattr(server_source, "FEW", 0)  # many objects are compared by lists
    assert same(sources, "diff", "now", made, "-n", "shop").out == back
    assert same(sources, "diff", made, changed, "cm,secrets", "-o", "json").document == everything
    assert "data.color" in same(sources, "blame", "cm", "web", "-n", "shop").out
    assert same(sources, "blame", "cm", "web", "-n", "shop", "--at", made, "-o", "json").code == 0
    then = str(int(changed) + 3)
    names = same(sources, "at", then, "cm,secrets", "-n", "shop", "-o", "name", file=True).lines
    assert [*names[:1], *names[2:]] == ["configmap/gone", "configmap/web", "secret/key"]
    assert same(sources, "at", then, "cm", "-A", "-l", "a=b", "-o", "name").lines == ["configmap/gone"]
    assert same(sources, "at", made, "cm", "web", "-n", "shop", "-o", "json").document["data"] == {
        "color": "blue"
    }
    assert same(sources, "at", then, "cm", "w*", "-n", "shop", "-o", "yaml").out.count("name: web") == 1
    assert same(sources, "at", made, "cm", "gone", "-n", "shop").code == 1
    found = {name: run_journal("stats", "-o", "json", *flags).document for name, flags in sources.items()}
    assert len({one["head"] for one in found.values()}) == 1
    lives = [
        {one["resource"]: one["live"] for one in one["types"] if one["events"]} for one in found.values()
    ]
    assert lives[0] == lives[1] == lives[2]
    for words, code, text in ERRORS:
        for name in ("server", "folder"):  # a file is read as a folder is
            result = run_journal(*words, *sources[name])
            assert (result.code, result.out) == (code, ""), (name, words)
            assert text in result.err.splitlines()[-1], (name, words)


def test_user_with_rights_in_one_namespace_sees_that(rewound: Rewound) -> None:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    path = f"/apis/{group}/v1/namespaces/default"
    rewound.request("POST", f"{path}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": group}],
        "roleRef": {"kind": "Role", "name": "reader", "apiGroup": group},
    }
    rewound.request("POST", f"{path}/rolebindings", binding)
    body = {"metadata": {"name": "web"}, "data": {"color": "blue"}}
    rewound.request("POST", "/api/v1/namespaces/default/configmaps", body)
    alice = f"--kubeconfig={rewound.kubeconfig_for('alice')}"
    assert " ConfigMap  default/web" in run_journal("log", "-n", "default", "--tail", "1", alice).out
    assert "web" in run_journal("at", "now", "-n", "default", alice).out
    for words, text in (
        (["log"], "you may list nothing of https://127.0.0.1"),
        (["stats"], " in all namespaces; name one with -n"),
        (["log", "--kind=secrets", "-n", "default"], "you may not list secrets in namespace default"),
        (["at", "now", "secrets"], 'secrets is forbidden: User "alice" cannot list'),
        (["at", "2020-01-01", "cm"], " is before the first event, of "),
    ):
        result = run_journal(*words, alice)
        assert (result.code, result.out) == (1, "") and text in result.err, words


@pytest.mark.rewound(fresh=True)
def test_log_follows_a_server(rewound: Rewound) -> None:
    words = ["log", "-f", "--kind=cm", "-n", "default", "-o", "json", f"--kubeconfig={rewound.kubeconfig}"]
    with subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    ) as following:
        assert following.stdout is not None and following.stderr is not None
        path = "/api/v1/namespaces/default/configmaps"
        seen = []
        for color in ("blue", "red"):
            body = {"metadata": {"name": f"web-{color}"}, "data": {"color": color}}
            rewound.request("POST", path, body)
            while not seen or seen[-1] != f"web-{color}":
                seen.append(orjson.loads(following.stdout.readline())["name"])
        following.terminate()


def test_file_of_a_backup_is_read_too(rewound: Rewound, tmp_path: Path) -> None:
    file = tmp_path / "x.backup"
    assert main(["backup", "--to", str(file), f"--kubeconfig={rewound.kubeconfig}"]) == 0
    flags = ["log", "--kind=namespaces"]
    assert (
        run_journal(*flags, f"--file={file}").out == run_journal(*flags, f"--data-dir={rewound.data_dir}").out
    )


def test_server_without_a_journal_is_refused(tmp_path: Path) -> None:
    """It would ignore `at` and show the current state."""
    for fake in served(tmp_path / "config"):
        fake.answers["GET /api/v1/namespaces/default/pods"] = (200, {"kind": "PodList", "items": []})
        missing = {"message": "the server could not find the requested resource", "code": 404}
        fake.answers["GET /apis/rewound.cluster.io/v1/timeline/types"] = (404, missing)
        for words in (["at", "1042", "pods"], ["log"], ["diff", "1042"]):
            result = run_journal(*words, f"--kubeconfig={tmp_path / 'config'}")
            assert (result.code, result.out) == (1, "")
            assert " has no journal to read (" in result.err and "; is it a Rewound server? " in result.err


def test_sources_exclude_each_other(tmp_path: Path) -> None:
    write_history(tmp_path, [put("web", {"color": "blue"})])
    data = f"--data-dir={tmp_path}"
    for words, text in (
        ([data, "--file=x"], "--file: names what to read, and so does --data-dir; leave one of them out"),
        ([data, "--server=https://x"], "--server: has no effect with --data-dir; leave one of them out"),
        (["--file=x", "--token=t"], "--token: has no effect with --file; leave one of them out"),
    ):
        result = run_journal("log", *words)
        assert (result.code, result.err) == (2, f"rewound: {text}\n")
    refused = run_journal("verify", "--server=https://x")
    assert refused.code == 2 and "is verified where its data folder is, with --data-dir FOLDER" in refused.err


def test_file_ends_with_its_last_event(tmp_path: Path) -> None:
    write_history(tmp_path, [put("web", {"color": "blue"}), put("web", {"color": "red"})])
    file = tmp_path / "x.journal"
    assert run_journal("export", file, f"--data-dir={tmp_path}").code == 0
    assert run_journal("verify", file).lines[-1] == "sound"
    for words in (["at", "10m", "cm"], ["diff", "1", "10m"]):
        result = run_journal(*words, f"--file={file}")
        assert (result.code, result.out) == (1, "") and " is after the last event, of " in result.err
    assert run_journal("log", "-f", f"--file={file}").err == (
        f"rewound: --follow: nothing is added to {file}; follow a folder or a server\n"
    )
    file.write_bytes(file.read_bytes()[:-20])
    damaged = run_journal("log", f"--file={file}")
    assert (damaged.code, damaged.out) == (1, "") and "x.journal" not in damaged.out


def test_folder_here_is_read_unless_a_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert "there is no kubeconfig file" in run_journal("log").err
    write_history(tmp_path / "rewound-data", [put("web", {"color": "blue"})])
    assert "default/web" in run_journal("log").out
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert "there is no kubeconfig file" in run_journal("log").err
    assert "default/web" in run_journal("log", "--data-dir=rewound-data").out
    assert run_journal("verify").lines[-1] == "sound"
