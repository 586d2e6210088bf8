"""The pytest plugin: what it costs suites that do not use it, and what a failing test prints and keeps."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from gateway.cli.fixture.processes import module_environment
from journal.log import Journal
from journal.transfer import restore

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

SECRETS = "/api/v1/namespaces/default/secrets"

def test_that_fails(rewound):
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "first"}}
    rewound.request("POST", SECRETS, secret)
    rewound.request("PUT", f"{SECRETS}/s", {**secret, "stringData": {"password": "second"}})
    assert rewound.version == 0, "it failed"

def test_that_passes(rewound):
    with pytest.raises(Exception, match="404"):
        rewound.request("GET", f"{SECRETS}/s")

@pytest.mark.parametrize("name", ["a", "b"])
def test_session(rewound_session, name):
    rewound_session.request("POST", SECRETS, {"metadata": {"name": name}})
    assert name == "a"

@pytest.mark.rewound(colour="red")
def test_wrong_marker(rewound):
    pass
"""


def test_loading_the_plugin_imports_nothing_else() -> None:
    program = (
        "import pytest, sys; before = set(sys.modules); import gateway.cli.fixture.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert run.stdout.split() == [
        "gateway",
        "gateway.cli",
        "gateway.cli.fixture",
        "gateway.cli.fixture.plugin",
    ]


def test_distribution_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"rewound": "gateway.cli.fixture.plugin"}


def test_failing_test_prints_its_story_and_keeps_its_journal(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config):\n"
        "    if not config.pluginmanager.has_plugin('rewound'):\n"
        "        from gateway.cli.fixture import plugin\n"
        "        config.pluginmanager.register(plugin, 'rewound')\n"
    )
    off = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "trio", "hypothesispytest", "timeout")]
    command = [sys.executable, "-m", "pytest", *off, "-W", "error"]
    run = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'temporary'}", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=module_environment(),
        timeout=120,
    )
    printed = run.stdout
    assert re.search("2 failed, 2 passed, 1 error", printed), printed + run.stderr
    story = printed[printed.index("rewound: what happened since version") :]
    lines = story.splitlines()
    assert lines[1] == "secrets default/s"
    assert re.fullmatch(r" +\d+  \d\d:\d\d:\d\d\.\d{3}  admin \(rewound-fixture\)  create  \d+ B", lines[2])
    assert lines[4] == '            ~ data.password: "*** (before)" -> "*** (after)"'
    assert "the marker is rewound(dialect=" in printed
    kept = {Path(file) for file in re.findall(r"the journal is saved: rewound replay (\S+)", printed)}
    assert {file.name for file in kept} == {"test_session_b_.journal", "test_that_fails.journal"}
    for file in kept:
        with file.open("rb") as stream:
            restore(stream, tmp_path / file.stem)
        journal = Journal.open(tmp_path / file.stem, readonly=True)
        assert journal.dialect == "kubernetes" and journal.head > 100
        journal.close()


def test_server_does_not_import_pytest() -> None:
    program = "import gateway.testing.build, gateway.cli.fixture.child, sys; print('pytest' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert run.stdout.strip() == "False"


def test_forked_server_finds_its_modules_imported(tmp_path: Path) -> None:
    """Every test would pay for a module that the zygote does not import."""
    program = (
        "import sys; from pathlib import Path\n"
        "from gateway.cli.fixture import zygote\n"
        "zygote._import_server(); before = set(sys.modules)\n"
        "from gateway.cli.fixture.serving import prepare, serve\n"
        f"prepared = prepare(Path({str(tmp_path)!r}), 'kubernetes', [])\n"
        "serve(prepared, lambda addresses, stop: stop())\n"
        "print(*[name for name in sys.modules if name not in before and name.startswith(('actors', 'gateway'))])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert run.stdout.split() == []
