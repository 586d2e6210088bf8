"""`rewound certificate`: approve or deny requests for certificates.

    rewound certificate approve carol
    rewound certificate deny carol dave --message 'unknown to us'

An approved request is signed by its signer, a denied one never is. Neither can be taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rewound.cli.access.flags import Options, Parser, add_connection, open_session
from rewound.client.target import segment

if TYPE_CHECKING:
    from rewound.client.session import Session

_TRIES = 10
_CONDITIONS = {"approve": "Approved", "deny": "Denied"}


def add_flags(parser: Parser) -> None:
    parser.add_argument("action", choices=tuple(_CONDITIONS))
    parser.add_argument("names", nargs="+", metavar="NAME", help="of a CertificateSigningRequest")
    parser.add_argument("--message", default="", metavar="TEXT", help="why; stored in the condition")
    add_connection(parser)


def run(options: Options) -> int:
    condition = _CONDITIONS[options.action]
    with open_session(options) as session:
        path = requests_path(session)
        for name in options.names:
            decide(session, f"{path}/{segment(name)}", condition, options.message)
            print(f"certificatesigningrequest/{name} {condition.lower()}")
    return 0


def requests_path(session: Session) -> str:
    from rewound.client.discovery import Discovery

    return f"/apis/{Discovery(session).names().group('certificates')}/v1/certificatesigningrequests"


def decide(session: Session, path: str, condition: str, message: str = "") -> None:
    """Add the condition; after a conflict, try again with the version that the server has now."""
    from rewound.client.errors import StatusError

    for attempt in range(_TRIES):
        request = session.get(path)
        conditions: list[dict[str, Any]] = request.setdefault("status", {}).setdefault("conditions", [])
        if any(one.get("type") == condition for one in conditions):
            return
        action = "approve" if condition == "Approved" else "deny"
        conditions.append(
            {
                "type": condition,
                "status": "True",
                "reason": f"Rewound{action.title()}",
                "message": message or f"By rewound certificate {action}.",
            }
        )
        try:
            session.put(f"{path}/approval", request)
            return
        except StatusError as error:
            if error.code != 409 or attempt == _TRIES - 1:
                raise
