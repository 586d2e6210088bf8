"""pip installs one package, `rewound`, whatever packages the user's project has beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

from rewound.release import RELEASE as RELEASED

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.timeout(600)  # what is built and installed takes seconds of CPU
FOLDERS = ("actors", "gateway", "journal")
RELEASE = (sys.executable, str(ROOT / ".ci" / "release.py"), "--uncommitted")
# A project that has a package of each name: one in the current folder, one under src, one installed.
TEST = """
import pytest
{imports}
from rewound import RequestFailed, Rewound
from rewound.asgi import application

def test_packages_are_ours(rewound: Rewound) -> None:
    assert isinstance(rewound, Rewound)
    assert [actors.OWNER, gateway.OWNER, journal.OWNER] == ["project"] * 3
    with pytest.raises(RequestFailed, match="404"):
        rewound.request("GET", "/api/v1/namespaces/default/configmaps/web")
    assert "nothing was written" in rewound.story()
"""
PROGRAM = """
{imports}
import os, sys
sys.exit([actors.OWNER, gateway.OWNER, journal.OWNER] != ["project"] * 3 or "KUBECONFIG" not in os.environ)
"""
IMPORTS = "\n".join(f"import {name}" for name in FOLDERS)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make release` builds."""
    output = tmp_path_factory.mktemp("distributions")
    subprocess.run([*RELEASE, "--output", output], check=True, capture_output=True, timeout=500)
    return output


# Enough for a wheel: all modules would take many times as long.
OF_A_SMALL_CLONE = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    ".ci/release.py",
    "rewound/__init__.py",
    "rewound/release.py",
)


def test_second_release_has_the_same_bytes(tmp_path: Path) -> None:
    """Also in another folder and time zone, with another umask, and from newer files."""
    first = released(tmp_path / "one", "UTC", 0o022)
    again = released(tmp_path / "another", "Asia/Kathmandu", 0o077)
    assert len(first) == 4 and sorted(again) == sorted(first)
    assert [name for name in first if first[name] != again[name]] == []


def released(clone: Path, zone: str, umask: int) -> dict[str, bytes]:
    """Commit a few files to a new clone, and release them."""
    for name in OF_A_SMALL_CLONE:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, clone / name)
    environment = os.environ | {"TZ": zone, "GIT_COMMITTER_DATE": "2026-01-01T12:00:00Z"}
    git = ["git", "-c", "user.name=tests", "-c", "user.email=tests@example.org"]
    for command in (
        [*git, "init", "-q"],
        [*git, "add", "."],
        [*git, "commit", "-q", "-m", "All"],
        [sys.executable, ".ci/release.py", "--output", "made"],
    ):
        subprocess.run(
            command, cwd=clone, env=environment, umask=umask, check=True, capture_output=True, timeout=500
        )
    return {path.name: path.read_bytes() for path in (clone / "made").iterdir()}


def test_checksums_and_the_bill_of_materials_are_of_these_files(distributions: Path) -> None:
    lines = (distributions / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert listed == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in distributions.iterdir()
        if path.name != "SHA256SUMS"
    }
    (inventory,) = distributions.glob("*.cdx.json")
    found = json.loads(inventory.read_text())
    assert found["metadata"]["component"]["version"] == RELEASED
    assert found["metadata"]["component"]["hashes"][0]["content"] in listed.values()
    scopes = {one["name"]: one["scope"] for one in found["components"]}
    assert (scopes["trio"], scopes["sniffio"]) == ("required", "required")
    assert (scopes["hypothesis"], scopes["aioquic"]) == ("optional", "optional")
    assert "pytest" not in scopes
    references = {one["bom-ref"] for one in (found["metadata"]["component"], *found["components"])}
    assert {one["ref"] for one in found["dependencies"]} == references


def test_distributions_have_one_package_with_all_its_files(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {re.sub("-.*", "", name.partition("/")[0]) for name in names} == {"rewound"}
    files = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "rewound").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert len(files) > 700
    assert any(name.endswith(".data/data/share/man/man1/rewound-serve.1") for name in names)
    assert sorted(files - names) == []
    (source,) = distributions.glob("*.tar.gz")
    with tarfile.open(source) as tar:
        assert {f"{source.name.removesuffix('.tar.gz')}/{name}" for name in files} <= set(tar.getnames())


@pytest.fixture(scope="module")
def installed(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which the wheel is installed, and a package `journal`."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    (packages,) = folder.glob("lib/python*/site-packages")
    (wheel,) = distributions.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", "--no-compile", wheel], check=True, timeout=120)
    take_compiled_modules(packages / "rewound")
    write(packages / "journal" / "__init__.py", "OWNER = 'project'\n")
    # Dependencies come from this environment; its own .pth files, and with them this clone, are not read.
    (packages / "dependencies.pth").write_text(str(Path(pytest.__file__).parents[1]))
    return folder / "bin" / "python"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "actors" / "__init__.py", "OWNER = 'project'\n")
    write(tmp_path / "src" / "gateway" / "__init__.py", "OWNER = 'project'\n")
    write(tmp_path / "tests" / "test_project.py", TEST.format(imports=IMPORTS))
    write(tmp_path / "pytest.ini", "[pytest]\npythonpath = . src\n")
    write(tmp_path / "program.py", PROGRAM.format(imports=IMPORTS))
    for variable in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_project_with_packages_of_the_same_names_tests_with_the_fixture(
    installed: Path, project: Path
) -> None:
    run = _pytest(installed, project)
    assert "1 passed" in run.stdout, run.stdout + run.stderr


def _pytest(installed: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    off = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "trio", "hypothesispytest", "timeout")]
    command = [installed, "-m", "pytest", "-q", *off, f"--basetemp={project / 'temporary'}", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=150)


def test_project_with_packages_of_the_same_names_runs_with_rewound_dev(
    installed: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{project}:{project / 'src'}")
    command = [installed, "-m", "rewound", "dev", "--", installed, "program.py"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=150)
    assert run.returncode == 0, run.stdout + run.stderr


def test_installed_wheel_has_the_command_and_leads_to_a_green_test(installed: Path, project: Path) -> None:
    """What docs/install.md promises; the test is the first one of docs/testing.md, with the bug fixed as it says."""
    version = subprocess.run(
        [installed.parent / "rewound", "--version"], cwd=project, capture_output=True, text=True, timeout=60
    )
    assert version.stdout.startswith(f"rewound {RELEASED}\n"), version.stderr
    blocks = re.findall(r"(?:^    .*\n|^\n)+", (ROOT / "docs" / "testing.md").read_text(), re.MULTILINE)
    found, fixed = (textwrap.dedent(one) for one in blocks if "def pod(number)" in one)
    write(
        project / "test_controller.py", found.replace(found[found.index("def pod") :].split("\n\n")[0], fixed)
    )
    run = _pytest(installed, project, "test_controller.py")
    assert "1 passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.slow
def test_type_checkers_find_the_types(installed: Path, project: Path) -> None:
    pytest.importorskip("mypy", reason="make check installs it")
    program = "import rewound\n\nwith rewound.start() as server:\n    reveal_type(server.version)\n"
    write(project / "typed.py", program)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed), "typed.py"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=150)
    assert 'typed.py:4: note: Revealed type is "int"' in run.stdout, run.stdout + run.stderr


def take_compiled_modules(package: Path) -> None:
    """The compiled modules of this clone: compiling all again would take most of the time of these tests."""
    for path in (ROOT / "rewound").rglob("*.py*"):
        copy = package.parent / path.relative_to(ROOT)
        if path.suffix == ".py":
            shutil.copystat(path, copy)  # a compiled module has the time and size of its source
        elif path.suffix == ".pyc":
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(path, copy)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
