"""Contexts are put into kubeconfig files and removed again; everything else stays as it is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from rewound.client.errors import ConfigError
from rewound.client.kubeconfig_edit import check_editable, drop_context, put_context

CLUSTER = {"server": "https://127.0.0.1:7443", "certificate-authority-data": "Y2E="}
USER = {"client-certificate-data": "Y3J0", "client-key-data": "a2V5"}
WORK = """\
# of the company
apiVersion: v1
kind: Config
preferences: {}
current-context: work   # every day
clusters:
  - name: work
    cluster:
      server: https://work:6443
      # a comment inside
      certificate-authority-data: d29yaw==
users:
- user: {token: "2026-11-18"}
  name: work
contexts: [{name: work, context: {cluster: work, user: work}}]
extra:
  expires: 2026-11-18T10:00:00Z
  text: |
    two
    lines
"""


def put(path: Path) -> str:
    return put_context(path, "rewound-a", CLUSTER, USER)


def test_context_comes_and_goes_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(WORK)
    path.chmod(0o644)
    assert put(path) == "work"
    added = yaml.safe_load(path.read_text())
    assert added["current-context"] == "rewound-a"
    assert [one["name"] for one in added["contexts"]] == ["work", "rewound-a"]
    assert added["clusters"][1] == {"name": "rewound-a", "cluster": CLUSTER}
    assert added["users"][1] == {"name": "rewound-a", "user": USER}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    drop_context(path, "rewound-a", "work")
    assert path.read_text() == WORK.replace("current-context: work ", 'current-context: "work" ')


def test_comments_and_order_stay_where_lists_are_blocks(tmp_path: Path) -> None:
    path = tmp_path / "config"
    text = WORK.replace(
        "contexts: [{name: work, context: {cluster: work, user: work}}]",
        "contexts:\n- context:\n    cluster: work\n    user: work\n  name: work\n# the end of the contexts",
    )
    path.write_text(text)
    put(path)
    put(path)  # replaces the entries
    assert {line for line in text.splitlines() if "#" in line and "current" not in line} < set(
        path.read_text().splitlines()
    )
    drop_context(path, "rewound-a", "work")
    assert path.read_text() == text.replace("current-context: work ", 'current-context: "work" ')


def written(tmp_path: Path, text: str | None) -> Path:
    path = tmp_path / "new" / "config"
    if text is not None:
        path.parent.mkdir()
        path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "# nothing yet\n",
        "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: null\nusers:\ncurrent-context:\n",
        '{"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "users": []}',
        "apiVersion: v1\r\nkind: Config\r\nclusters:\r\n- cluster: {server: 'https://a'}\r\n  name: a\r\n",
        "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {server: 'https://a'}",
    ],
)
def test_every_form_of_file_gets_the_context(tmp_path: Path, text: str | None) -> None:
    path = written(tmp_path, text)
    assert put(path) == ""
    found = yaml.safe_load(path.read_text())
    assert (found["kind"], found["current-context"]) == ("Config", "rewound-a")
    assert {"name": "rewound-a", "user": USER} in found["users"]
    drop_context(path, "rewound-a", "gone")
    left = yaml.safe_load(path.read_text())
    assert (left["current-context"], left["contexts"] or [], left["users"] or []) == ("", [], [])


def test_another_current_context_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(WORK)
    put(path)
    path.write_text(path.read_text().replace('"rewound-a"   #', "work   #"))
    drop_context(path, "rewound-a", "somewhere")
    assert yaml.safe_load(path.read_text())["current-context"] == "work"


def test_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text(WORK)
    link.symlink_to(real)
    put(link)
    assert link.is_symlink() and "rewound-a" in real.read_text()


@pytest.mark.parametrize("broken", ["clusters: {", "kind: Pod\n", "- a\n", "clusters: 7\n", b"\xff\xfe"])
def test_broken_file_is_refused_and_stays(tmp_path: Path, broken: str | bytes) -> None:
    path, raw = tmp_path / "config", broken if isinstance(broken, bytes) else broken.encode()
    path.write_bytes(raw)
    for attempt in (lambda: check_editable(path), lambda: put(path)):
        with pytest.raises(ConfigError, match=str(path)):
            attempt()
    assert path.read_bytes() == raw and [one.name for one in tmp_path.iterdir()] == ["config"]


def test_file_that_another_program_changes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewound.client.kubeconfig_edit._LOCK_SECONDS", 0)
    (tmp_path / "config.lock").touch()
    with pytest.raises(ConfigError, match=r"another program holds config\.lock"):
        put(tmp_path / "config")
