"""Everything that README and the ways in ask a reader to type can be typed, in order, and prints what they show.

Each page runs in a fresh folder with a fresh home, beside the server of `make run`, as README asks for. A block with
indentation is a command if it begins with a program, or else the output of the command before. A shown line is a
printed one, where numbers, times and the random parts of names may differ; it may end earlier, and lines may be left
out.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.current_folder import ROOT
from tests.ports import reserve_port

PAGES = (
    *("README.md", "docs/test-a-controller.md", "docs/debug-an-incident.md", "docs/small-control-plane.md"),
    "docs/flight-tour.md",
)
_PROGRAM = re.compile(
    r"(\.venv/bin/)?(rewound|kubectl|python3?|curl|make|mkdir|cat|export|printf|cd|kill|until)\b"
)
# What stays in the foreground until Ctrl-C, or is no test of a page.
_NOT_RUN = re.compile(r"make |(\.venv/bin/)?rewound (serve|replay|record|open)\b")
_HERE = re.compile(r"<<'(\w+)'$")
_MARK = "@@ end of block"
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_SECONDS = 600


@dataclass
class Block:
    commands: str
    shown: list[str] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        """Whether the page shows a failure, of pytest."""
        return any(line.startswith("E ") for line in self.shown)


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    for paragraph in paragraphs(page):
        if _PROGRAM.match(paragraph[0]):
            found.append(Block("\n".join(paragraph)))
        else:
            assert found, f"a page begins with a command: {paragraph[0]}"
            found[-1].shown += paragraph
    return found


def paragraphs(page: str) -> Iterator[list[str]]:
    """The parts of indented blocks, divided by empty lines; a file that the shell reads from the page stays whole."""
    lines: list[str] = []
    until = ""
    for line in [*page.splitlines(), ""]:
        if line.startswith("    ") or until:
            text = line.removeprefix("    ")
            lines.append(text)
            here = _HERE.search(text)
            until = here[1] if here else "" if text == until else until
        elif lines:
            yield lines
            lines = []


def run(folder: Path, page: list[Block], environment: dict[str, str]) -> list[tuple[int, str]]:
    """The exit code and the output of each block, all of one shell."""
    script = "".join(f'{one.commands}\necho "{_MARK} $?"\n' for one in page)
    done = subprocess.run(
        ["bash"],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
        timeout=_SECONDS,
        check=False,
    )
    parts = re.split(rf"{_MARK} (\d+)\n", done.stdout)
    assert len(parts) == 2 * len(page) + 1, done.stdout
    return [(int(code), output) for output, code in zip(parts[::2], parts[1::2], strict=False)]


def words(line: str) -> list[str]:
    known = re.sub(r"\b(\d+[dhms])+\b", "0s", _RANDOM.sub("-random", line))
    return re.sub(r"\d+", "0", known).split()


def missing(shown: list[str], printed: str) -> list[str]:
    """The first of the shown lines that is not printed after those before it, if there is one."""
    rest = iter([words(line) for line in printed.splitlines()])
    for line in shown:
        wanted = words(line)
        if not any(found[: len(wanted)] == wanted for found in rest):
            return [line]
    return []


@contextmanager
def make_run(folder: Path, port: int, environment: dict[str, str]) -> Iterator[None]:
    """The server of `make run`, at another port: 6443 may be in use."""
    command = [sys.executable, "-m", "rewound", "serve", f"--secure-port={port}"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert any("is ready." in line for line in server.stdout)
            yield
        finally:
            server.send_signal(signal.SIGKILL)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES)
def test_page_can_be_typed(page: str, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl", path=f"{ROOT / '.clients' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    text = (ROOT / page).read_text()
    if "    kubectl " in text and kubectl is None:
        pytest.skip("needs kubectl: make clients")
    folder, home = tmp_path / "clone", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    binaries = Path(sys.executable).parent
    (folder / ".venv").symlink_to(binaries.parent)
    (folder / "docs").symlink_to(ROOT / "docs")
    path = [str(binaries), *([str(Path(kubectl).parent)] if kubectl else []), os.environ["PATH"]]
    kept = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "XDG_STATE_HOME")}
    environment = {**kept, "HOME": str(home), "PATH": os.pathsep.join(path)}
    port = reserve_port()
    text = text.replace(":6443", f":{port}").replace("6445", str(reserve_port()))
    found = [one for one in blocks(text) if not _NOT_RUN.match(one.commands)]
    assert found
    try:
        with make_run(folder, port, environment):
            results = run(folder, found, environment)
    finally:
        down = (
            'for one in "$HOME"/.local/state/rewound/*/; do rewound down "$(basename "$one")" --delete; done'
        )
        subprocess.run(["bash", "-c", down], env=environment, check=False, timeout=60, capture_output=True)
    problems = []
    for block, (code, printed) in zip(found, results, strict=True):
        printed = printed.replace(str(home), "/home/you")
        unseen = missing(block.shown, printed)
        if (code != 0) != block.fails or unseen:
            problems.append(f"{block.commands}\nexit code {code}, not printed: {unseen}\n{printed}")
    assert not problems, "\n\n".join(problems)


def test_shown_lines_are_compared_without_what_varies() -> None:
    printed = "NAME                   AGE\nweb-758757f67f-46wxc   1m2s\n2 passed in 0.3s\n"
    assert missing(["NAME AGE", "web-6d59fdff4d-zzzzz 3s", "2 passed"], printed) == []
    assert missing(["2 passed", "NAME AGE"], printed) == ["NAME AGE"]
    assert missing(["3 failed"], printed) == ["3 failed"]
    page = "text\n\n    cat > a <<'END'\n    one\n\n    two\n    END\n    cat a\n\n    one\n\ntext\n"
    (block,) = blocks(page)
    assert block.commands.count("\n") == 5 and block.shown == ["one"]
