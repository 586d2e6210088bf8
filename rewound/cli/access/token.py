"""`rewound token`: a token of a service account.

Prints a new token, which the server issues by TokenRequest, and nothing else. For a bootstrap token, with which a
node joins: rewound token bootstrap. An account that is called bootstrap is NAMESPACE/bootstrap.

    rewound token default                                of the account default, for an hour
    rewound token shop/robot --duration 10m --audience vault
    rewound token robot --bound-object-kind Pod --bound-object-name web-1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rewound.cli.access.flags import Options, Parser, account, add_connection, open_session
from rewound.client.errors import UsageError
from rewound.client.target import segment
from rewound.server.flags.values import duration

if TYPE_CHECKING:
    from rewound.client.session import Session


def add_flags(parser: Parser) -> None:
    parser.add_argument("account", metavar="[NAMESPACE/]ACCOUNT")
    add_request(parser)
    parser.add_argument(
        "--bound-object-kind", choices=("Pod", "Secret", "Node"), help="the token ends with this object"
    )
    parser.add_argument("--bound-object-name", default="", metavar="NAME")
    parser.add_argument("--bound-object-uid", default="", metavar="UID", help="(default that of the object)")
    add_connection(parser)


def add_request(parser: Any) -> None:
    parser.add_argument(
        "--audience",
        action="append",
        default=[],
        metavar="NAME",
        help="who accepts the token; may be repeated (default the server itself)",
    )
    parser.add_argument("--duration", type=duration, metavar="1h", help="from 10m; the server may shorten it")


def run(options: Options) -> int:
    bound = _bound(options)
    with open_session(options) as session:
        namespace, name = account(options.account, session.target.namespace)
        print(request_token(session, namespace, name, options, bound))
    return 0


def request_token(
    session: Session, namespace: str, name: str, options: Options, bound: dict[str, str] | None = None
) -> str:
    from rewound.client.discovery import Discovery
    from rewound.client.errors import ClientError, StatusError

    spec: dict[str, Any] = {"audiences": options.audience}
    if options.duration is not None:
        spec["expirationSeconds"] = int(options.duration)
    if bound:
        spec["boundObjectRef"] = bound
    version = f"{Discovery(session).names().group('authentication')}/v1"
    path = f"/api/v1/namespaces/{segment(namespace)}/serviceaccounts/{segment(name)}/token"
    try:
        made = session.post(path, {"apiVersion": version, "kind": "TokenRequest", "spec": spec})
    except StatusError as error:
        if error.code != 404:
            raise
        raise ClientError(
            f"{error}; this is the namespace {namespace}: give another with --namespace or as NAMESPACE/NAME"
        ) from error
    token = (made.get("status") or {}).get("token")
    if not isinstance(token, str) or not token:
        raise ClientError(f"{session.target.server} returned no token; does it issue tokens?")
    return token


def _bound(options: Options) -> dict[str, str] | None:
    kind, name, uid = options.bound_object_kind, options.bound_object_name, options.bound_object_uid
    if bool(kind) != bool(name) or (uid and not kind):
        raise UsageError(
            "--bound-object-kind and --bound-object-name are given together, --bound-object-uid with them"
        )
    if not kind:
        return None
    found = {"apiVersion": "v1", "kind": kind, "name": name}
    return {**found, "uid": uid} if uid else found
