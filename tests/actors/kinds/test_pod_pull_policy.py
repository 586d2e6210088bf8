"""Pod: the pull policy defaults to Always for the latest tag, otherwise to IfNotPresent."""

from __future__ import annotations

from rewound.actors.kinds.core.containers import is_latest
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import pod
from tests.cases import cases

DIGEST = "sha256:" + "0" * 64


@cases(
    ("image", "latest"),
    [
        ("img", True),
        ("img:latest", True),
        ("img:1.2", False),
        ("team/img", True),
        ("registry.example:5000/team/img", True),
        ("registry.example:5000/team/img:1", False),
        ("localhost/img", True),
        (f"img@{DIGEST}", False),
        (f"img:latest@{DIGEST}", True),
        (f"img:1@{DIGEST}", False),
        ("img@sha256:12", False),
        ("IMG", False),
        ("a__b/c-d.e", True),
        ("a___b", False),
        (" img", False),
        ("img:", False),
        ("img:latest:latest", False),
        ("", False),
        ("a" * 64, False),
        ("x/" * 130 + "y", False),
        ("-" * 100_000, False),
    ],
)
def test_missing_or_latest_tag_is_latest(image: str, latest: bool) -> None:
    assert is_latest(image) is latest


def test_pull_policy_defaults_in_all_containers(kinds: Definitions) -> None:
    containers = [{"name": "a", "image": "img"}, {"name": "b", "image": "img", "imagePullPolicy": "Never"}]
    init = [{"name": "i", "image": "img:1"}]
    spec = kinds.decode("pods", pod(containers=containers, initContainers=init))["spec"]
    assert [one["imagePullPolicy"] for one in spec["containers"]] == ["Always", "Never"]
    assert [one["imagePullPolicy"] for one in spec["initContainers"]] == ["IfNotPresent"]
