"""Controllers, scheduler and nodes come to rest where those of Kubernetes came to rest in the same story.

`recorded/VERSION/` has the stories. `make workloads` plays all of them, and those of 1.25 beside the repository, if
they are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from tests.stories.api import Api, served
from tests.stories.player import play

RECORDED = Path(__file__).with_name("recorded")
OTHERS = Path(__file__).parents[3] / "shared/reference/workloads/scenarios"
# Played by `make test` and `make coverage`: one of each controller, and several of the scheduler's devices and hints.
SHORT = {
    *("dra36-all-constraint", "dra36-capacity-shared", "dra36-cel-error", "dra36-extended"),
    *("dra36-first-available", "dra36-partition", "dra36-shared-node-selector", "dra36-taint"),
    *("devices-75", "dra36-template", "dra36-two-claims"),
    *("sched36-affinity-comes", "sched36-claim-later", "sched36-gates", "sched36-relabel-node"),
    *("sched36-untaint", "sched36-world-taint-change", "sched-least-allocated"),
    *("cron36-timezone", "deploy36-rollout-terminating", "ds36-surge", "ds36-world-tainted"),
    *("hpa36-no-metrics", "job36-per-index-retry", "node36-noexecute", "pdb36-always-allow"),
    *("pv36-protect", "sts36-ordinals", "svc36-prefersamenode", "svc36-terminating"),
}


class Servers:
    """One server at a time: stories of a version follow each other."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._current: tuple[str, bool] | None = None
        self._api: Api | None = None

    def find(self, version: str, *, own_nodes: bool) -> Api:
        if self._api is None or self._current != (version, own_nodes):
            self.close()
            self._current = (version, own_nodes)
            self._api = self._stack.enter_context(served(version, own_nodes=own_nodes))
        return self._api

    def close(self) -> None:
        self._stack.close()
        self._api = None


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    found = Servers()
    yield found
    found.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = [("1.25", OTHERS), *((one.name, one) for one in sorted(RECORDED.iterdir()))]
    known = set((RECORDED.parent / "differ.txt").read_text().split())
    parameters = []
    for version, folder in folders:
        for own_nodes in (False, True):
            for path in sorted(folder.glob("*.json")):
                name = f"{version}/{path.stem}/{'simulated' if own_nodes else 'played'}-nodes"
                marks = [] if path.stem in SHORT else [pytest.mark.slow]
                if name in known:
                    marks.append(pytest.mark.xfail(strict=True, reason="it is in differ.txt"))
                parameters.append(pytest.param(version, path, own_nodes, id=name, marks=marks))
    metafunc.parametrize(("version", "path", "own_nodes"), parameters)


def test_story(servers: Servers, version: str, path: Path, own_nodes: bool) -> None:
    api = servers.find(version, own_nodes=own_nodes)
    try:
        found = play(api, orjson.loads(path.read_bytes()), own_nodes=own_nodes)
    except BaseException:
        servers.close()  # it may hold what the story left
        raise
    assert found == []
