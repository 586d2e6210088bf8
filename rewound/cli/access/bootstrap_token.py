"""`rewound token bootstrap`: a new bootstrap token.

Creates the Secret of a token with which a node joins the cluster, and prints the token and nothing else. The server
accepts such tokens if it runs with --enable-bootstrap-token-auth.

    rewound token bootstrap
    rewound token bootstrap --duration 1h --group system:bootstrappers:rack1
"""

from __future__ import annotations

import secrets
import string
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rewound.cli.access.flags import Options, Parser, add_connection, open_session
from rewound.client.errors import UsageError
from rewound.server.flags.values import duration

if TYPE_CHECKING:
    from rewound.actors.names import Names
    from rewound.client.session import Session

_USAGES = ("authentication", "signing")
_CHARACTERS = string.ascii_lowercase + string.digits


def add_flags(parser: Parser) -> None:
    parser.add_argument("--description", default="", metavar="TEXT", help="for people who list the tokens")
    parser.add_argument(
        "--duration", type=duration, default=86400.0, metavar="24h", help="0 for a token that never expires"
    )
    parser.add_argument(
        "--usage",
        action="append",
        choices=_USAGES,
        default=[],
        help="authentication: sign in; signing: sign cluster-info; may be repeated (default both)",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="GROUP",
        help="system:bootstrappers:...; may be repeated",
    )
    add_connection(parser)


def run(options: Options) -> int:
    from rewound.client.discovery import Discovery

    for group in options.group:
        if not group.startswith("system:bootstrappers:"):
            raise UsageError(f"--group: {group!r} does not begin with system:bootstrappers:")
    token_id, secret = _random(6), _random(16)
    data = {
        "token-id": token_id,
        "token-secret": secret,
        **{f"usage-bootstrap-{usage}": "true" for usage in options.usage or _USAGES},
    }
    if options.description:
        data["description"] = options.description
    if options.group:
        data["auth-extra-groups"] = ",".join(options.group)
    if options.duration:
        ends = datetime.fromtimestamp(int(time.time() + options.duration), UTC)
        data["expiration"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    with open_session(options) as session:
        names = Discovery(session).names()
        session.post(
            f"/api/v1/namespaces/{names.system_namespace}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"bootstrap-token-{token_id}"},
                "type": names.key("token", "bootstrap"),
                "stringData": data,
            },
        )
        _warn_if_refused(session, names, data)
    print(f"{token_id}.{secret}")
    return 0


def _warn_if_refused(session: Session, names: Names, data: dict[str, str]) -> None:
    """Warn if the server runs without bootstrap tokens, as far as the user may review tokens."""
    from rewound.client.errors import StatusError

    if "usage-bootstrap-authentication" not in data:
        return
    version = f"{names.group('authentication')}/v1"
    token = f"{data['token-id']}.{data['token-secret']}"
    review = {"apiVersion": version, "kind": "TokenReview", "spec": {"token": token}}
    try:
        reviewed = session.post(f"/apis/{version}/tokenreviews", review)
    except StatusError:
        return
    if not (reviewed.get("status") or {}).get("authenticated"):
        print(
            "rewound: the server does not accept the token; start it with --enable-bootstrap-token-auth",
            file=sys.stderr,
        )


def _random(length: int) -> str:
    return "".join(secrets.choice(_CHARACTERS) for _ in range(length))
