"""The documentation names files that exist, its links work, and its pages stay short where they must."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from rewound.release import RELEASE

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "rewound"
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")]

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_documentation_names_files_that_exist() -> None:
    pattern = re.compile(r"`((?:actors|gateway|journal|rewound|tests|benchmarks)/[\w/.-]*[\w/])`")
    named = {(page.name, path) for page in PAGES for path in pattern.findall(page.read_text())}
    assert len(named) > 30
    ignored = {"benchmarks/results/", "benchmarks/results/scratch"}
    missing = sorted((page, path) for page, path in named if path not in ignored and not _exists(path))
    assert missing == []


def test_code_names_files_that_exist() -> None:
    """Checks docstrings, comments and messages."""
    pattern = re.compile(
        r"(?<![\w/.-])((?:actors|gateway|journal|rewound|tests|benchmarks|docs)/[\w/.-]*[\w/])"
    )
    ignored = {"docs/benchmarks/NAME"}
    named = {
        (str(path.relative_to(ROOT)), name) for path in _code() for name in pattern.findall(path.read_text())
    }
    assert len(named) > 100
    missing = sorted(one for one in named if one[1] not in ignored and not _exists(one[1]))
    assert missing == []


def _code() -> Iterator[Path]:
    yield from SOURCE.rglob("*.py")
    yield from (ROOT / "benchmarks").rglob("*.py")


def _exists(path: str) -> bool:
    """Whether the path exists, also in a clone without the top-level links to the folders of `rewound`."""
    return (ROOT / path).exists() or (SOURCE / path).exists()


def test_links_lead_to_files_and_headings_that_exist() -> None:
    broken = [
        (str(page.relative_to(ROOT)), link)
        for page in PAGES
        for link in _LINK.findall(_FENCE.sub("", page.read_text()))
        if not link.startswith(("http://", "https://")) and not _leads_somewhere(page, link)
    ]
    assert broken == []


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> Iterator[str]:
    """The anchors that GitHub gives to the headings of a page."""
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_decisions_have_numbers_of_their_own() -> None:
    numbers = [page.name[:4] for page in (ROOT / "docs/decisions").glob("0*.md")]
    assert sorted(numbers) == sorted(set(numbers))


COLUMNS = 120


def test_lines_of_pages_are_wrapped() -> None:
    found = [
        (str(page.relative_to(ROOT)), number)
        for page in PAGES
        for number, line in _prose(page.read_text())
        if len(line) > COLUMNS
    ]
    assert found == []


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines that should be wrapped: no code, table, heading, HTML, link definition, single link or image."""
    kept_whole = re.compile(r"\s*(\||#|<|\[[^\]]+\]: |!?\[[^\]]*\]\(\S+\)$)")
    fenced = indented = False
    previous = ""
    for number, line in enumerate(text.splitlines(), start=1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        indented = line.startswith("    ") and (indented or not previous)
        previous = line
        if not (fence or fenced or indented or kept_whole.match(line)):
            yield number, line


def test_first_page_is_short_and_the_index_lists_all_pages() -> None:
    assert len((DOCS / "start-here.md").read_text().split()) <= 600
    trees = re.findall(
        r"^```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL
    )
    listed = {line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")}
    assert {page.stem for page in DOCS.glob("*.md")} - {"index"} <= listed
    assert "docs/index.md" in _LINK.findall((ROOT / "README.md").read_text())
    assert _first_link(DOCS / "architecture.md", "# Architecture") == "start-here.md"


def _first_link(page: Path, heading: str) -> str:
    found = _LINK.search(page.read_text().partition(f"{heading}\n")[2])
    assert found
    return found[1]


def test_map_lists_every_folder_in_a_short_row_in_the_order_of_the_layers() -> None:
    page = (DOCS / "architecture.md").read_text()
    assert [row for row in page.splitlines() if row.startswith("|") and len(row) > 200] == []
    layers = _layers()
    for heading, package in (
        ("rewound", "rewound"),
        ("gateway", "rewound.gateway"),
        ("actors", "rewound.actors"),
        ("journal", "rewound.journal"),
    ):
        section = page.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
        listed = re.findall(r"^\| `(\w+)/` \|", section, re.MULTILINE)
        folder = ROOT / package.replace(".", "/")
        assert sorted(listed) == sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        heights = [layers[f"{package}.{name}"] for name in listed if f"{package}.{name}" in layers]
        assert heights == sorted(heights) and (heights or heading == "journal")


def _layers() -> dict[str, int]:
    """The layer of each folder in the contracts of import-linter."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {
        name: height
        for contract in contracts
        for height, layer in enumerate(contract.get("layers", ()))
        for name in re.split(r" [|:] ", layer)
    }


def test_every_package_says_what_is_in_it_and_names_modules_that_exist() -> None:
    packages = list(SOURCE.rglob("__init__.py"))
    said = {path.parent: ast.get_docstring(ast.parse(path.read_text())) or "" for path in packages}
    assert [str(folder) for folder, text in said.items() if not text] == []
    missing = [
        (str(folder.relative_to(ROOT)), name)
        for folder, text in said.items()
        for name in re.findall(r"`([a-z_]+)/?`", text)
        if name not in COMMANDS and not _is_in(folder, name)
    ]
    assert missing == []


COMMANDS = {"rewound", "import"}  # which docstrings name too


def _is_in(folder: Path, name: str) -> bool:
    """Whether a folder has this module, folder or function."""
    if (folder / name).is_dir() or (folder / f"{name}.py").exists():
        return True
    return any(f"\ndef {name}(" in module.read_text() for module in folder.glob("*.py"))


def test_changelog_has_unreleased_changes_first_and_then_every_version_down_from_the_current_one() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = int(RELEASE.split(".")[1])
    assert headings[0] == "Unreleased"
    assert [heading.split(" - ")[0] for heading in headings[1:]] == [f"0.{n}.0" for n in range(newest, 0, -1)]
    dates = [heading.split(" - ")[1] for heading in headings[1:]]
    assert dates == sorted(dates, reverse=True)


def test_changelog_has_at_most_ten_short_items_a_version() -> None:
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    items = {
        version.partition("\n")[0]: re.findall(r"^- .*(?:\n  .*)*", version, re.MULTILINE)
        for version in versions
    }
    assert {version: len(found) for version, found in items.items() if not 0 < len(found) <= 10} == {}
    assert [item for found in items.values() for item in found if item.count("\n") > 1] == []


# Unclear words that were used here, and what to write instead.
INSTEAD_OF = {
    " tells ": "returns, reports, distinguishes",
    " told ": "returned, reported",
    " he ": "it, the user, the client",
    " his ": "its",
    " himself": "itself",
    "stranger": "unauthenticated client",
    "of the server's own ": "internal, of the server",
    "must be there once": "expected exactly one value",
    "group of the past": "group rewound.cluster.io",
    "kept connection": "pooled connection",
    "kept decision": "cached decision",
}


# Translated phrases, which pages had.
INSTEAD_OF_IN_PAGES = {
    "anew": "again",
    "in vain": "without effect",
    "from which on": "after which",
    "of now": "current",
    "for ever": "forever",
    "has it that": "says",
    "thereby": "so",
    "in good order": "gracefully",
    "those who": "users who",
}


def test_texts_avoid_words_that_were_unclear() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in _sources()}
    found = {
        (path, weak, instead)
        for path, text in texts.items()
        for weak, instead in INSTEAD_OF.items()
        if weak in text
    }
    assert found == set()


def test_pages_have_no_translated_phrases() -> None:
    found = {
        (str(page.relative_to(ROOT)), weak, instead)
        for page in PAGES
        if ROOT / "tests" not in page.parents
        for weak, instead in INSTEAD_OF_IN_PAGES.items()
        if re.search(rf"\b{weak}\b", " ".join(page.read_text().split()))
    }
    assert found == set()


def _sources() -> Iterator[Path]:
    yield from _code()
    yield from (page for page in PAGES if ROOT / "tests" not in page.parents)
