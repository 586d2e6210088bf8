"""`rewound import kwok` turns the output of `kwokctl snapshot record` into a journal with the same objects and
changes.
"""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import orjson
import pytest

from rewound.cli.main import main
from rewound.journal.log import Journal
from tests.recording.record.recording import events_of

RECORDING = """\
apiVersion: v1
kind: Namespace
metadata:
  creationTimestamp: $(time-offset-nanosecond -5123456789)
  name: shop
  uid: 6f2f0e5e-0000-4000-8000-000000000001
---
apiVersion: apps/v1
kind: Deployment
metadata:
  creationTimestamp: $(time-offset-nanosecond -4123456789)
  managedFields:
  - {apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:replicas': {}}}, manager: kubectl,
     operation: Update, time: $(time-offset-nanosecond -4123456789)}
  name: web
  namespace: shop
  uid: 6f2f0e5e-0000-4000-8000-000000000002
spec:
  replicas: 2
  template:
    spec:
      containers:
      - {image: 'web:1', name: web}
      - {image: 'proxy:1', name: proxy}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 1000000000
kind: ResourcePatch
method: patch
resource:
  group: apps
  resource: deployments
  version: v1
target:
  name: web
  namespace: shop
template:
  spec:
    replicas: 5
    template:
      spec:
        containers:
        - {image: 'web:2', name: web}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 2500000000
kind: ResourcePatch
method: create
resource: {group: stable.example.com, resource: colours, version: v1}
target: {name: red, namespace: shop}
template:
  apiVersion: stable.example.com/v1
  kind: Colour
  metadata:
    creationTimestamp: $(time-offset-nanosecond 2876543211)
    name: red
    namespace: shop
    uid: 6f2f0e5e-0000-4000-8000-000000000003
  spec: {list: [1, 2]}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 3000000000
kind: ResourcePatch
method: patch
resource: {group: stable.example.com, resource: colours, version: v1}
target: {name: red, namespace: shop}
template: {spec: {list: [3], new: true}}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 4000000000
kind: ResourcePatch
method: delete
resource: {group: apps, resource: deployments, version: v1}
target: {name: web, namespace: shop}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 5000000000
kind: ResourcePatch
method: patch
resource: {resource: pods, version: v1}
target: {name: unknown, namespace: shop}
template: {spec: {}}
"""


def test_objects_and_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(RECORDING)
    start = ["--start", "2026-11-17T10:00:00.9Z"]
    assert main(["import", "kwok", str(tmp_path / "a.yaml"), str(tmp_path / "out"), *start]) == 0
    assert "not in the file" in capsys.readouterr().err
    journal = Journal.open(tmp_path / "out" / "journal", readonly=True)
    deployments, colours = (
        events_of(journal, "deployments.apps"),
        events_of(journal, "colours.stable.example.com"),
    )
    definitions = events_of(journal, "customresourcedefinitions.apiextensions.k8s.io")
    journal.close()
    assert [(one.verb, one.removed, one.user) for one in deployments] == [
        ("create", False, "recorded"),
        ("patch", False, "recorded"),
        ("delete", True, "recorded"),
    ]
    assert deployments[0].manager == "kubectl"
    assert deployments[1].time - deployments[0].time == 1_000_000
    changed = orjson.loads(deployments[1].body)
    assert changed["spec"]["replicas"] == 5
    containers = changed["spec"]["template"]["spec"]["containers"]
    assert [one["image"] for one in containers] == ["web:2", "proxy:1"]
    # The start is moved so that times that were whole seconds are whole again.
    assert changed["metadata"]["creationTimestamp"] == "2026-11-17T09:59:56Z"
    assert [orjson.loads(one.body)["spec"] for one in colours] == [
        {"list": [1, 2]},
        {"list": [3], "new": True},
    ]
    assert [one.name for one in definitions] == ["colours.stable.example.com"]


@pytest.mark.parametrize("content", ["", "just text", "- a\n- b\n", "kind: [\n", "a: b\n"])
def test_what_is_no_recording_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "a.yaml").write_text(content)
    assert main(["import", "kwok", str(tmp_path / "a.yaml"), str(tmp_path / "out")]) == 1
    assert "is not a recording of kwokctl" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("through", ["file", "pipe", "stdin"])
def test_the_last_change_is_as_old_as_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str, compressed: bool
) -> None:
    content = gzip.compress(RECORDING.encode()) if compressed else RECORDING.encode()
    file, out, now = tmp_path / "a.yaml", tmp_path / "out", 1_800_000_000
    file.write_bytes(content)
    os.utime(file, (now, now))
    before = time.time()
    if through == "file":
        assert main(["import", "kwok", str(file), str(out)]) == 0
    else:
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        with os.fdopen(reading) as stream:
            monkeypatch.setattr("sys.stdin", stream)
            name = "-" if through == "stdin" else f"/dev/fd/{reading}"
            assert main(["import", "kwok", name, str(out)]) == 0
    journal = Journal.open(out / "journal", readonly=True)
    removed = events_of(journal, "deployments.apps")[-1].time / 1e6
    journal.close()
    assert sorted(one.name for one in out.iterdir()) == ["journal"]
    # The removal was a second before the end; the start is moved by less than a second.
    first, last = (now, now) if through == "file" else (before, time.time())
    assert first - 2 <= removed <= last
