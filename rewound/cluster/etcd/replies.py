"""Classifies errors of etcd: not done (another member may do it), lost (unknown whether it was done), or refused.

etcd identifies its errors by texts; several share a gRPC status code. A transaction is repeated only after a text of
`_NOT_DONE`: etcd returns these before it proposes anything to the other members.
"""

from __future__ import annotations

import re
from typing import Final

from rewound.actors.etcd.api import Compacted, EtcdError, EtcdFull, EtcdRefused, LeaseGone


class NotDone(Exception):
    """The member has not done it, and never will; another one may."""


class Lost(Exception):
    """It is unknown whether the member has done it, or still will: the reply is lost, or says so."""


class TokenInvalid(NotDone):
    """The token is unknown to the member, or has expired."""


class NoAuthentication(NotDone):
    """Authentication is not enabled in etcd."""


_NOT_DONE: Final = frozenset(
    {
        "etcdserver: no leader",
        "etcdserver: not leader",
        "etcdserver: too many requests",
        "etcdserver: rpc not supported for learner",
        "raft proposal dropped",
    }
)
_TOKEN_INVALID: Final = frozenset(
    {
        "etcdserver: invalid auth token",
        "etcdserver: revision of auth store is old",
        "etcdserver: user name is empty",
    }
)
_COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"
_NO_AUTHENTICATION: Final = "etcdserver: authentication is not enabled"
_NO_SPACE: Final = "etcdserver: mvcc: database space exceeded"
_LEASE_NOT_FOUND: Final = "etcdserver: requested lease not found"
_TOO_LARGE: Final = "etcdserver: request is too large"  # gRPC has another text for much too large ones
_NEXT_STEP: Final = {
    "etcdserver: permission denied": "name a user who may read and write the prefix (etcdctl role grant-permission)",
    "etcdserver: authentication failed, invalid user ID or password": "correct the user and the password",
    _TOO_LARGE: "make the object smaller, or start etcd with a larger --max-request-bytes",
    "etcdserver: too many operations in txn request": "start etcd with a larger --max-txn-ops",
    "etcdserver: corrupt cluster": "compare the members with etcdctl check, and replace the corrupt one",
}
_REASON: Final = re.compile(r"rpc error: code = (\w+) desc = (.*)", re.DOTALL)
_CODES: Final = {"InvalidArgument": 3, "PermissionDenied": 7, "Unauthenticated": 16}
_UNKNOWN: Final = 2
# gRPC status codes of errors that a retry does not change. All others (unknown, deadline exceeded, aborted, internal,
# unavailable) may come after a proposal.
_REFUSED: Final = frozenset({3, 5, 6, 7, 8, 9, 11, 12, 15, 16})


def failure(code: int, message: str) -> Exception:
    """The error for a gRPC status: EtcdError, NotDone or Lost."""
    if message in _NOT_DONE:
        return NotDone(message)
    if message in _TOKEN_INVALID:
        return TokenInvalid(message)
    if message == _COMPACTED:
        return Compacted(0)
    if message == _LEASE_NOT_FOUND:
        return LeaseGone(0)
    if message == _NO_SPACE:
        return EtcdFull()
    if message == _NO_AUTHENTICATION:
        return NoAuthentication(message)
    if code in _REFUSED:
        return _refused(message)
    return Lost(message)


def cancelled(reason: str) -> Exception:
    """The error for a watch that etcd has cancelled, with a reason such as "rpc error: code = X desc = text"."""
    found = _REASON.fullmatch(reason)
    if found is None:
        return Lost(reason or "it cancelled the watch")
    return failure(_CODES.get(found[1], _UNKNOWN), found[2])


def _refused(message: str) -> EtcdError:
    step = _NEXT_STEP[_TOO_LARGE] if "larger than max" in message else _NEXT_STEP.get(message)
    text = f"etcd refused: {message.removeprefix('etcdserver: ')}"
    return EtcdRefused(f"{text}; {step}" if step else text)
