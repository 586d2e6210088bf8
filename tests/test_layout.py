"""Tests of a package mirror its folders; tests of the whole server's API are in `tests/api`, by subject.

Everything is imported as `rewound`.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "rewound"
PACKAGES = (
    "actors",
    "cli",
    "client",
    "cluster",
    "gateway",
    "http2",
    "journal",
    "recording",
    "rewind",
    "server",
    "testing",
    "workers",
)
LINKED = ("actors", "gateway", "journal")
# Tests of the whole server: its API, its web page, real clients, recorded conversations and stories, benchmarks, kills
# and power losses.
OF_THE_WHOLE = ("api", "benchmarks", "browser", "clients", "conformance", "robustness", "stories")


def test_tests_have_these_folders() -> None:
    assert subfolders(TESTS) == sorted(PACKAGES + OF_THE_WHOLE)


def test_every_folder_of_tests_has_its_folder_in_the_package() -> None:
    found = [folder for package in PACKAGES for folder in folders(TESTS / package)]
    assert len(found) > 30
    missing = [str(folder) for folder in found if not (SOURCE / folder.relative_to(TESTS)).is_dir()]
    assert missing == []


def test_subjects_of_the_api_are_folders() -> None:
    """Including the tests of the gateway: only servers and clients that tests share are beside its folders."""
    assert sorted((TESTS / "api").glob("test_*.py")) == []
    assert sorted((TESTS / "gateway").glob("test_*.py")) == []


NAMES_OF_FOLDERS = r"(?:actors|gateway|journal)\b"
# Also in strings: programs that tests run, examples in documents.
FOLDERS_IMPORTED = re.compile(
    rf"from {NAMES_OF_FOLDERS}[\w.]* import|^\W*import {NAMES_OF_FOLDERS}|-m {NAMES_OF_FOLDERS}"
    r"|(?<!rewound\.)gateway\.asgi"
)
FIRST_WORDS = (".asgi", *(f"{word} {name}" for word in ("from", "import", "-m") for name in LINKED))
READ_BY_PEOPLE_AND_PROGRAMS = (".py", ".md", ".toml", ".mk", ".yaml", ".sh", ".js", ".go")


def test_folders_are_imported_as_packages_of_rewound() -> None:
    """Another project may have packages named actors, gateway and journal: they must not collide."""
    root = TESTS.parent
    files = [root / "README.md", root / "CONTRIBUTING.md", root / "pyproject.toml", root / "Makefile"]
    for folder in ("rewound", "tests", "benchmarks", "docs", ".ci"):
        files += [one for one in (root / folder).rglob("*") if one.suffix in READ_BY_PEOPLE_AND_PROGRAMS]
    assert len(files) > 1000
    found = [
        f"{file.relative_to(root)}: {line.strip()}"
        for file in files
        for line in imports_in(file.read_text())
        if FOLDERS_IMPORTED.search(line)
    ]
    assert found == []


def imports_in(text: str) -> list[str]:
    """The lines that may have an import; most files have none, and need no regular expression."""
    return text.splitlines() if any(words in text for words in FIRST_WORDS) else []


def test_import_under_the_name_of_a_folder_fails() -> None:
    """It would import the module a second time, with different classes."""
    for name in LINKED:
        with pytest.raises(ImportError, match=f"rewound.{name}"):
            import_module(f"{name}.errors")


def folders(folder: Path) -> list[Path]:
    return [one for name in subfolders(folder) for one in (folder / name, *folders(folder / name))]


def subfolders(folder: Path) -> list[str]:
    """Folders with modules: a folder that moved may have left compiled files behind."""
    return sorted(one.parent.name for one in folder.glob("*/__init__.py"))


def test_links_at_the_top_lead_to_the_folders() -> None:
    """Only people need the links: the design and the documents name `actors/`, `gateway/` and `journal/`."""
    for name in LINKED:
        link = TESTS.parent / name
        assert link.is_symlink(), (
            f"{name} is no symbolic link: git has made a file of it. The server runs without the links; to have them,"
            " git config core.symlinks true && git checkout -- actors gateway journal"
        )
        assert link.resolve() == (SOURCE / name).resolve()


def test_package_is_compiled_before_it_runs() -> None:
    """Otherwise every start would take a second longer."""
    lines = (TESTS.parent / "Makefile").read_text().splitlines()
    assert any("compileall" in one and one.split()[-1] == "rewound" for one in lines)
