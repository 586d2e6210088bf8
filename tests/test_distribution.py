"""pip installs one package, `rewound`, whatever packages the user's project has beside it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("actors", "gateway", "journal")
OF_THE_BUILD = ("LICENSE", "README.md", "pyproject.toml")
# The wheel is built from an unpacked source distribution, so a file missing there is missing in the wheel.
BUILD = """
import os, sys, tarfile
from setuptools import build_meta

source, output = sys.argv[1:]
os.chdir(source)
archive = build_meta.build_sdist(output)
with tarfile.open(os.path.join(output, archive)) as tar:
    tar.extractall(output, filter="data")
os.chdir(os.path.join(output, archive.removesuffix(".tar.gz")))
build_meta.build_wheel(output)
"""
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
    """A folder with a source distribution and the wheel that is built from it."""
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("distributions")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "rewound", source / "rewound", ignore=ignored)
    for name in OF_THE_BUILD:
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-P", "-c", BUILD, str(source), str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=150)
    return output


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
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
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
    off = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "trio", "hypothesispytest", "timeout")]
    command = [installed, "-m", "pytest", "-q", *off, f"--basetemp={project / 'temporary'}"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=150)
    assert "1 passed" in run.stdout, run.stdout + run.stderr


def test_project_with_packages_of_the_same_names_runs_with_rewound_dev(
    installed: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{project}:{project / 'src'}")
    command = [installed, "-m", "rewound", "dev", "--", installed, "program.py"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=150)
    assert run.returncode == 0, run.stdout + run.stderr


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
