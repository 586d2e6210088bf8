"""The examples about access in docs/access.md and README.md use only flags that exist, and work as typed.

`make robustness` types every example into a shell: a server of its own for each section, with other ports. A section
that begins its example with "With the server of [another section]" continues after that one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from rewound.cli.access.commands import COMMANDS
from rewound.cli.access.flags import Parser
from rewound.server.flags.parser import make_parser
from tests.ports import reserve_port

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "access.md"
ABOUT_ACCESS = (
    *("--anonymous-auth", "--api-audiences", "--authentication-", "--authorization-", "--client-ca-file"),
    *("--cluster-signing-", "--controllers", "--enable-bootstrap-token-auth", "--oidc-", "--requestheader-"),
    *("--service-account-", "--token-auth-file"),
)


def sections() -> dict[str, list[str]]:
    """The lines of each section of the page, by its heading."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        found.setdefault(heading, []).append(line)
    return found


def examples() -> dict[str, str]:
    """The shell commands of each section, without the YAML."""
    found = {}
    for heading, lines in sections().items():
        blocks = "\n".join(line if line[:4] == "    " else "" for line in lines).split("\n\n")
        typed = [re.sub("(?m)^    ", "", block) for block in blocks if block.strip()]
        shell = "\n".join(block.strip("\n") for block in typed if not _is_yaml(block))
        if shell:
            before = re.search(r"With the server of \[(.*?)\]", "\n".join(lines))
            found[heading] = f"{found[before[1]]}\n{shell}" if before else shell
    return found


def _is_yaml(block: str) -> bool:
    return block.lstrip("\n").startswith(("users:", "apiVersion:"))


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every `rewound` in a shell script."""
    for found in re.finditer(
        r"(?:^|\$\(|\.venv/bin/)rewound ((?:\\\n|[^\n&|;#)'\"]|\"[^\"\n]*\"|'[^'\n]*')+)", text, re.M
    ):
        yield shlex.split(found[1].replace("\\\n", " "))


def command_parser(arguments: list[str]) -> tuple[Parser, list[str]]:
    name, *rest = arguments
    module = COMMANDS[name]
    if (name, rest[:1]) == ("token", ["bootstrap"]):
        module, rest = "bootstrap_token", rest[1:]
    command = import_module(f"rewound.cli.access.{module}")
    parser = Parser(f"rewound {name}", command.__doc__)
    command.add_flags(parser)
    return parser, rest


def test_commands_of_the_examples_have_known_arguments() -> None:
    scripts = [*examples().values(), (ROOT / "README.md").read_text()]
    found = [one for script in scripts for one in commands(script)]
    assert len(found) > 30
    for arguments in found:
        if arguments[0] == "serve":
            make_parser().parse_args(arguments[1:])
        elif arguments[0] in COMMANDS:
            parser, rest = command_parser(arguments)
            parser.parse_args(rest)


def serve_flags() -> set[str]:
    return {flag for action in make_parser()._actions for flag in action.option_strings if flag[:2] == "--"}


def test_every_flag_about_access_is_documented_and_every_documented_flag_exists() -> None:
    text = PAGE.read_text()
    # The flags of a signer's CA: `...-kubelet-client-...`.
    signers = {
        flag for flag in serve_flags() if re.fullmatch(r"--cluster-signing-k.*|.*legacy-unknown.*", flag)
    }
    about = {flag for flag in serve_flags() - signers if flag.startswith(tuple(ABOUT_ACCESS))}
    assert {flag for flag in about if not re.search(rf"{flag}\b(?!-)", text)} == set()
    for signer in ("kubelet-serving", "kubelet-client", "kube-apiserver-client", "legacy-unknown"):
        assert f"-{signer}-" in text
        assert {f"--cluster-signing-{signer}-cert-file", f"--cluster-signing-{signer}-key-file"} <= signers
    table = set(re.findall(r"(?m)^\| .*?`(--[a-z0-9-]+)", text)) | set(
        re.findall(r"rewound serve (--[a-z-]+)", text)
    )
    known = serve_flags()
    for name in (*COMMANDS, "token bootstrap"):
        parser, _ = command_parser(name.split())
        known |= {flag for action in parser._actions for flag in action.option_strings}
    assert {flag for flag in table if flag not in known} == set()


SHIM = """#!/bin/sh
first=$1; [ $# = 0 ] || shift
[ "$first" != serve ] || set -- --secure-port {secure} "$@"
exec {python} -m rewound.cli.main "$first" "$@"
"""


def run(folder: Path, script: str) -> str:
    """Run a script in a shell, with a free port for each of 6443, 7443 and 8080; return what it prints."""
    ports = {port: str(reserve_port()) for port in ("6443", "7443", "8080")}
    for port, free in ports.items():
        script = script.replace(port, free)
    (folder / "bin").mkdir()
    shim = folder / "bin" / "rewound"
    shim.write_text(SHIM.format(secure=ports["6443"], python=sys.executable))
    shim.chmod(0o755)
    (folder / "work").mkdir()
    known = {"PATH", "LANG", "LD_LIBRARY_PATH"} & os.environ.keys()
    environment = {name: os.environ[name] for name in known}
    environment |= {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        ["bash", "-c", f"trap 'kill $(jobs -p); wait' EXIT\n{script}"],
        cwd=folder / "work",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as shell:
        try:
            return shell.communicate(timeout=120)[0].decode()
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)


def promised(script: str) -> list[str]:
    """What the comments say about the responses: the text after 403, or what a command prints."""
    found = []
    for comment in re.findall(r"     # ?(.*)", script):
        text = re.sub(r"^403: |, then .*|\.\.\.\"$", "", comment)
        if comment.startswith(("403: ", "verified: ", "wrote ", '"')):
            found.append(text)
        elif comment.startswith("200; "):
            found.append('"items": []')
        elif comment.startswith("no"):
            found.append("\nno\n")
    return found


def test_comments_are_understood() -> None:
    found = {heading: promised(script) for heading, script in examples().items()}
    assert found["Client certificates"] == ['User "jane" cannot list']
    assert found["Bootstrap tokens"] == ['User "system:bootstrap:', "verified: signed with the token"]
    assert found["Commands"] == ["wrote alice.kubeconfig", "\nno\n"]
    assert [heading for heading, texts in found.items() if not texts] == []


@pytest.mark.slow
@pytest.mark.parametrize("heading", examples())
def test_example_works_as_typed(heading: str, tmp_path: Path) -> None:
    script = examples()[heading]
    if "kubectl" in script and shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    printed = run(tmp_path, script).replace('\\"', '"')
    # A user without an ID token of the provider is anonymous.
    wanted = ['User "system:anonymous" cannot list'] if heading == "OpenID Connect" else promised(script)
    for text in wanted:
        assert text in printed, printed
    assert "error:" not in printed, printed
