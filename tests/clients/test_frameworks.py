"""The fixture beside the official library, kopf's KopfRunner, pytest-asyncio, anyio and pytest-trio."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rewound.testing.fixture.processes import module_environment
from tests.clients.program import TIMEOUT
from tests.testing.fixture.test_examples import indented

OPERATOR = """
import kopf

@kopf.on.create("configmaps")
def paint(patch, name, **_):
    if name == "web":
        patch["data"] = {"color": "red"}
"""
# Imported before there is a server, as other modules of a suite may do: it reads KUBECONFIG now.
BEFORE = "import pytest\nimport kubernetes.config\n"
# With a second server: what kopf and the library have read for the first one is still in their modules.
AGAIN = """
@pytest.mark.rewound(fresh=True)
def test_operator_paints_maps_of_another_server(rewound):
    test_operator_paints_new_maps(rewound)
"""

LIBRARY = """
import kubernetes

def test_users_have_clients_of_the_library(rewound):
    api = kubernetes.client.CoreV1Api(rewound.client(user="alice", groups=["system:masters"]))
    api.create_namespaced_config_map("default", {"metadata": {"name": "web"}})
    assert "  alice (" in rewound.story()
    assert kubernetes.client.CoreV1Api(rewound.client()).read_namespaced_config_map("web", "default")
"""


def test_kopf_the_library_and_asynchronous_frameworks(python_clients: dict[str, str], tmp_path: Path) -> None:
    if not (Path(python_clients["PYTHONPATH"]) / "pytest_asyncio").exists():
        pytest.skip("pytest-asyncio is not installed: run make clients")
    (tmp_path / "painter.py").write_text(OPERATOR)
    (tmp_path / "test_kopf.py").write_text(BEFORE + example("KopfRunner") + AGAIN)
    (tmp_path / "test_library.py").write_text(LIBRARY)
    asynchronous = example("async def test_")
    for name in ("trio", "anyio", "asyncio"):
        marked = asynchronous.replace("async def", f"import pytest\n\n@pytest.mark.{name}\nasync def")
        (tmp_path / f"test_{name}.py").write_text(marked)
    off = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "hypothesispytest")]
    ours = module_environment()
    path = f"{python_clients['PYTHONPATH']}{os.pathsep}{ours['PYTHONPATH']}"
    run = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-v", *off, f"--basetemp={tmp_path / 'temporary'}", "."],
        cwd=tmp_path,
        env={**ours, **python_clients, "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT + 60,
    )
    assert "7 passed" in run.stdout, run.stdout + run.stderr  # anyio's on asyncio and on trio


def example(word: str) -> str:
    """The example of docs/testing.md."""
    (found,) = (text for text in indented() if word in text and "def test_" in text)
    return found
