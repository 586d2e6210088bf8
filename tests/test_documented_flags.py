"""The documentation and the code name flags that a program has: one of ours, or another that is listed here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

from benchmarks.options import Sizes
from benchmarks.simulate import Layout
from rewound.server.flags.parser import make_parser
from tests.cases import cases

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]
OURS = ("rewound", "benchmarks")  # whose docstrings, comments and messages are read
PROGRAMS = (*OURS, "tests", "docs/examples", ".ci")  # that have flags
# Of other programs, without the dashes.
OTHERS = {
    "any program": "help version",
    "the beginning of flags": "horizontal-pod-autoscaler",
    "arrows in a drawing": "convert upgrade",
    "aws": "log-group-name log-stream-name-prefix",
    "a heading in a link": "workers-2",
    "containers in examples": "number verbose",
    "configure of CPython": "enable-optimizations",
    "ctags": "links",
    "curl": "cacert cert http1 http2-prior-knowledge insecure key raw retry retry-connrefused silent unix-socket",
    "e2e.test": "ginkgo provider",
    "etcd": "auto-compaction-retention enable-grpc-gateway listen-client-urls max-request-bytes max-txn-ops "
    "quota-backend-bytes",
    "etcdctl": "keys-only prefix",
    "git": "always annotate dirty tags",
    "Hypercorn": "bind certfile graceful-timeout keyfile",
    "kopf": "standalone",
    "kube-apiserver, which `rewound envtest` accepts or refuses": "allow-privileged cert-dir cors-allowed-origins "
    "emulated-version encryption-provider-config etcd-compaction-interval etcd-prefix etcd-servers min-request-timeout "
    "profiling request-timeout tls-cipher-suites v watch-cache",
    "kubectl": "clusterrole embed-certs field-selector for force-conflicts from-literal image kustomize "
    "limit-bytes overwrite previous replicas requests resource resource-name role server-side timestamps type watch",
    "kwokctl": "record",
    "pip": "dest no-build-isolation no-deps wheel-dir",
    "podman": "build-arg detach format publish read-only tag tmpfs volume",
    "sha256sum, wsl": "check install",
    "systemctl": "now",
    "pytest": "full-trace only-e2e",
}
_FLAG = re.compile(r"--(?<![\w-]--)([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w-]*[*{<])")
# Functions that declare a flag.
_DECLARES = {"add", "add_argument", "add_list", "add_switch", "addoption"}
_MAY_DECLARE = re.compile(r"\b(add_argument|add_list|add_switch|addoption)\(")


def test_named_flags_exist() -> None:
    named = {(str(path.relative_to(ROOT)), flag) for path in _texts() for flag in flags_in(path.read_text())}
    assert len(named) > 500
    assert sorted(one for one in named if not exists(one[1])) == []


@cases("text, found", [("`--at T`, --no-status.", ["at", "no-status"]), ("a--b --- `--oidc-*`", [])])
def test_flags_in_a_text(text: str, found: list[str]) -> None:
    assert list(flags_in(text)) == found


@cases(
    "flag", ["journal-retention", "audit-webhook-batch-max-size", "show-secrets", "rewound", "server-side"]
)
def test_flags_of_all_programs_are_known(flag: str) -> None:
    assert exists(flag) and not exists(f"{flag}s-of-nobody")


def flags_in(text: str) -> Iterator[str]:
    for found in _FLAG.finditer(text):
        yield found[1]


def exists(flag: str) -> bool:
    return flag in _known() or flag.removeprefix("no-") in _known()


@cache
def _known() -> frozenset[str]:
    server = {option for action in make_parser()._actions for option in action.option_strings}
    sizes = {field.name.replace("_", "-") for made in (Sizes, Layout) for field in fields(made)}
    others = {flag for flags in OTHERS.values() for flag in flags.split()}
    return frozenset({*(option.removeprefix("--") for option in server), *_declared(), *sizes, *others})


def _declared() -> Iterator[str]:
    """What calls of these functions have as a constant."""
    for path in (path for folder in PROGRAMS for path in (ROOT / folder).rglob("*.py")):
        if _MAY_DECLARE.search(text := path.read_text()):
            for call in ast.walk(ast.parse(text)):
                if isinstance(call, ast.Call) and _name(call.func) in _DECLARES:
                    for given in call.args:
                        if isinstance(given, ast.Constant) and str(given.value).startswith("--"):
                            yield given.value.removeprefix("--")


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _texts() -> Iterator[Path]:
    yield from PAGES
    for folder in OURS:
        yield from (ROOT / folder).rglob("*.py")
