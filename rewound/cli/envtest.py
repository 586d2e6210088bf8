"""`rewound envtest`: makes the folder for KUBEBUILDER_ASSETS, and prints its path.

The folder has the programs, which are shell scripts that start this interpreter, the texts of their --help, and the
template of a data folder. It is made again when a file of this package is newer than its template.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rewound.actors.versions.version import PATCH_RELEASES, check_version
from rewound.cli.command import run_command
from rewound.client.errors import Failure, UsageError
from rewound.journal.files.private import private_folder
from rewound.release import RELEASE, served_version
from rewound.testing.envtest import programs
from rewound.testing.envtest.programs import TEMPLATE

_EXAMPLES = """\
The folder has kube-apiserver and etcd, which start Rewound, and kubectl where that is installed. Nothing else changes:
unmodified tests with controller-runtime's envtest find the programs there. docs/envtest.md says what differs.

examples:
  rewound envtest
  rewound envtest --kubernetes-version 1.33
  rewound envtest --folder ./testbin       for a CI job that keeps folders
  export KUBEBUILDER_ASSETS=$(rewound envtest)
  KUBEBUILDER_ASSETS=$(rewound envtest) go test ./...
  for v in 1.29 1.33 1.36; do KUBEBUILDER_ASSETS=$(rewound envtest --kubernetes-version $v) go test ./... || exit; done
"""
_PACKAGE: Final = Path(programs.__file__).parents[2]


def envtest(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="rewound envtest",
        usage="rewound envtest [flags]",
        description="Print a folder for KUBEBUILDER_ASSETS, in which controller-runtime's envtest finds Rewound.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="make it there (default a folder of this release below ~/.cache/rewound, or XDG_CACHE_HOME)",
    )
    parser.add_argument(
        "--kubernetes-version",
        default="",
        metavar="VERSION",
        help=f"the Kubernetes that the server is, such as 1.33 (default {check_version('kubernetes', '')})",
    )
    options, unknown = parser.parse_known_args(arguments)

    def run() -> int:
        if unknown:
            raise UsageError(f"envtest: {unknown[0]}: is not a flag of it; see rewound envtest --help")
        try:
            version = check_version("kubernetes", options.kubernetes_version)
        except ValueError as wrong:
            raise UsageError(f"envtest: --kubernetes-version: {wrong}") from None
        print(make_assets(options.folder or default_folder(version), version))
        return 0

    return run_command(run, ((UsageError, 2), (Failure, 1)))


def default_folder(version: str) -> Path:
    """The folder of this installation and version. Raises Failure without a home folder."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise Failure("envtest: this user has no home folder; give a folder with --folder") from None
    installation = hashlib.blake2b(f"{sys.executable}\0{_PACKAGE}".encode(), digest_size=4).hexdigest()
    return cache / "rewound" / f"envtest-{RELEASE}-{installation}-{version}"


def make_assets(folder: Path, version: str) -> Path:
    """Make the folder for a version unless it is current; returns its absolute path. Raises Failure if it cannot."""
    folder = folder.absolute()
    try:
        private_folder(folder)
        with _locked(folder):
            if not _is_current(folder, version):
                _make_programs(folder, version)
                _make_template(folder / TEMPLATE, version)
            _link_kubectl(folder / "kubectl")
    except OSError as error:
        raise Failure(f"envtest: {folder}: {error.strerror}; give another folder with --folder") from None
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that of two commands only one makes it at a time."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_current(folder: Path, version: str) -> bool:
    from rewound.testing.envtest.api_server import version_of

    if version_of(folder) != version:
        return False
    try:
        made = (folder / TEMPLATE).stat().st_mtime
    except FileNotFoundError:
        return False
    sources = (file.stat().st_mtime for part in _PACKAGE.iterdir() for file in part.rglob("*.py"))
    return max(sources, default=0.0) < made


def _make_programs(folder: Path, version: str) -> None:
    from rewound.testing.envtest.api_server import VERSION
    from rewound.testing.envtest.flags import api_server_help

    texts = {"etcd": programs.etcd_help(), "kube-apiserver": api_server_help(version)}
    versions = {
        "etcd": "etcd Version: 3.5.4",
        "kube-apiserver": f"Kubernetes {served_version(PATCH_RELEASES[version])}",
    }
    shutil.rmtree(folder / TEMPLATE, ignore_errors=True)  # it may be of another version
    _write(folder / VERSION, version, 0o600)
    for name, text in texts.items():
        _write(folder / f"{name}.help", text, 0o600)
        _write(folder / name, _script(folder, name, versions[name]), 0o700)


def _script(folder: Path, name: str, version: str) -> str:
    """The shell script of a program. It prints --help and --version without Python: envtest asks before every start."""
    where, module = str(Path(programs.__file__).parent), programs.__name__.rpartition(".")[2]
    code = f"import sys; sys.path.append({where!r}); import {module}; sys.exit({module}.main(sys.argv[1:]))"
    python, text, quoted = (shlex.quote(str(one)) for one in (sys.executable, folder / f"{name}.help", code))
    return (
        "#!/bin/sh\n"
        f"# Made by `rewound envtest`, Rewound {RELEASE}.\n"
        f'for one in "$@"; do\n'
        '  case "$one" in\n'
        f"    -h | -help | --help) exec cat {text} ;;\n"
        f"    -version | --version | --version=true) echo {shlex.quote(version)}; exit ;;\n"
        "  esac\n"
        "done\n"
        f'exec {python} -I -S -c {quoted} {name} {shlex.quote(str(folder))} "$@"\n'
    )


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file atomically: a test may just be starting it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.chmod(mode)
    draft.rename(path)


def _make_template(template: Path, version: str) -> None:
    """Start and stop a server, and keep its data folder as the template."""
    from rewound.testing.envtest.api_server import template_flags
    from rewound.testing.fixture.serving import prepare, serve
    from rewound.testing.fixture.templates import scratch_folder

    scratch = scratch_folder()
    try:
        serve(prepare(scratch, "kubernetes", template_flags(version)), lambda addresses, stop: stop())
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=template.parent))
        shutil.copytree(scratch, draft, dirs_exist_ok=True)
        shutil.rmtree(template, ignore_errors=True)
        draft.rename(template)
        os.utime(template)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _link_kubectl(link: Path) -> None:
    """Link to the installed kubectl, if there is one; envtest starts without it."""
    found = shutil.which("kubectl")
    found = found and os.path.abspath(found)
    if link.is_symlink() and (found is None or os.readlink(link) != found):
        link.unlink()
    if found is not None and not link.is_symlink() and Path(found) != link:
        link.symlink_to(found)
