"""`rewound can-i`: whether you may do something, and why.

    rewound can-i create deployments -n team        namespaced resources
    rewound can-i get pods/log NAME                 a subresource of one object
    rewound can-i get nodes --as alice              as another user
    rewound can-i get /metrics                      a path
    rewound can-i --list                            everything

Prints yes or no with the reason of the server, such as the binding that allows it. Exit code 0 for yes, 1 for no, 2 for
an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, open_session
from rewound.client.errors import UsageError

if TYPE_CHECKING:
    from rewound.client.session import Session

# The verbs of Kubernetes, and `rewind` for the history of Secrets.
_OBJECT_VERBS = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
_VERBS = _OBJECT_VERBS | {"use", "bind", "escalate", "impersonate", "approve", "sign", "rewind", "*"}
_PATH_VERBS = {"get", "put", "post", "head", "options", "delete", "patch", "*"}
_WITHOUT_DISCOVERY = ("users", "groups")  # for the verb impersonate; no server serves them


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "verb", nargs="?", default="", metavar="VERB", help="get, list, create, ...; * for all"
    )
    parser.add_argument(
        "resource",
        nargs="?",
        default="",
        metavar="RESOURCE[/SUB]",
        help="pods, deployments.apps, pods/log; or /path",
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="of one object")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in every namespace")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; use the exit code")
    parser.add_argument("--list", action="store_true", help="everything that you may do in the namespace")
    add_connection(parser)


def run(options: Options) -> int:
    if options.list == bool(options.verb or options.resource) or bool(options.verb) != bool(options.resource):
        raise UsageError("give a verb and a resource, or --list; see rewound can-i --help")
    if options.resource.startswith("/"):
        _check_path(options)
    elif not all(options.resource.split("/")) and options.resource:
        raise UsageError(f"{options.resource!r} is not a resource; write it like pods or pods/log")
    if options.list:
        _check_list(options)
    with open_session(options) as session:
        return _list(session) if options.list else _ask(session, options)


def _check_path(options: Options) -> None:
    """Refuse flags and arguments that only apply to resources."""
    given = {
        "NAME": options.name,
        "--namespace": options.namespace,
        "--all-namespaces": options.all_namespaces,
    }
    for argument, value in given.items():
        if value:
            raise UsageError(
                f"{argument}: has no effect with a path such as {options.resource}; leave it out"
            )


def _check_list(options: Options) -> None:
    """Refuse flags and arguments that do not apply to --list."""
    for argument, value in {"--all-namespaces": options.all_namespaces, "--quiet": options.quiet}.items():
        if value:
            raise UsageError(f"{argument}: has no effect with --list; leave one of them out")


def _ask(session: Session, options: Options) -> int:
    from rewound.client.errors import print_warning

    known = _PATH_VERBS if options.resource.startswith("/") else _VERBS
    if options.verb not in known:
        print_warning(f"verb '{options.verb}' is not a known verb")
    status = _review(session, "SelfSubjectAccessReview", _spec(session, options))
    allowed = status.get("allowed") is True
    if not options.quiet:
        reasons = [status.get("reason"), status.get("evaluationError")]
        print(" - ".join(["yes" if allowed else "no", *(escaped(str(one)) for one in reasons if one)]))
    return 0 if allowed else 1


def _spec(session: Session, options: Options) -> dict[str, Any]:
    if options.resource.startswith("/"):
        return {"nonResourceAttributes": {"verb": options.verb, "path": options.resource}}
    resource, _, subresource = options.resource.partition("/")
    attributes = {"verb": options.verb, **_resource(session, resource, options)}
    if subresource:
        attributes["subresource"] = subresource
    if options.name:
        attributes["name"] = options.name
    return {"resourceAttributes": attributes}


def _resource(session: Session, name: str, options: Options) -> dict[str, str]:
    from rewound.client.discovery import Discovery
    from rewound.client.errors import print_warning

    namespace = {} if options.all_namespaces else {"namespace": session.target.namespace}
    if name == "*":
        return {"group": "*", "resource": "*", **namespace}
    found = Discovery(session).find(name)
    if found is None:
        if name not in _WITHOUT_DISCOVERY:
            print(
                f"rewound: the server has no resource {name!r}; asking for it all the same", file=sys.stderr
            )
        plural, _, group = name.partition(".")
        return {"group": group, "resource": plural, **namespace}
    if options.namespace and not found.namespaced:
        print_warning(f"resource '{found.plural}' is not namespace scoped")
    return {"group": found.group, "resource": found.plural, **(namespace if found.namespaced else {})}


def _list(session: Session) -> int:
    status = _review(session, "SelfSubjectRulesReview", {"namespace": session.target.namespace})
    rows = [("RESOURCES", "NON-RESOURCE URLS", "RESOURCE NAMES", "VERBS")]
    for rule in status.get("resourceRules") or ():
        names = _joined(rule.get("resourceNames"))
        rows += [(one, "[]", names, _joined(rule.get("verbs"))) for one in _resources(rule)]
    for rule in status.get("nonResourceRules") or ():
        verbs = _joined(rule.get("verbs"))
        rows += [("", f"[{path}]", "[]", verbs) for path in rule.get("nonResourceURLs") or ()]
    _print_table([[escaped(cell) for cell in row] for row in rows])
    if status.get("incomplete"):
        why = status.get("evaluationError") or "an authorizer does not list its rules"
        print(f"rewound: the list is incomplete: {escaped(why)}", file=sys.stderr)
    return 0


def _resources(rule: dict[str, Any]) -> list[str]:
    """`pods`, `deployments.apps`, `*.*`: one line each."""
    return [
        f"{resource}.{group}" if group else resource
        for group in rule.get("apiGroups") or ("",)
        for resource in rule.get("resources") or ()
    ]


def _joined(values: Sequence[str] | None) -> str:
    return f"[{' '.join(values or ())}]"


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _review(session: Session, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    from rewound.client.discovery import Discovery

    version = f"{Discovery(session).names().group('authorization')}/v1"
    body = {"apiVersion": version, "kind": kind, "spec": spec}
    reviewed = session.post(f"/apis/{version}/{kind.lower()}s", body)
    status = reviewed.get("status")
    return status if isinstance(status, dict) else {}
