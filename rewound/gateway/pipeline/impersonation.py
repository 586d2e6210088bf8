"""The Impersonate-* headers of a request: read, checked for completeness, and removed.

A request with a group, uid or extra value to impersonate and without a user is refused: to serve it as the caller
itself would give it rights that it did not ask for. So is one with an Impersonate-* header that is not known here.
As in Kubernetes, an empty user or uid counts as none: a request with no more than that goes on as the caller.
"""

from __future__ import annotations

from rewound.actors.access.authentication.authenticate import extra_key
from rewound.actors.access.impersonation import WantedIdentity
from rewound.actors.errors import BadRequest
from rewound.gateway.message import Request
from rewound.gateway.pipeline.remembered import IMPERSONATION

_USER, _GROUP, _UID = b"impersonate-user", b"impersonate-group", b"impersonate-uid"
_EXTRA = b"impersonate-extra-"


def take_wanted_identity(request: Request) -> WantedIdentity | None:
    """The identity that the headers ask for; None if they ask for none. The headers are not read after this."""
    names = [name for name in request.headers if name.startswith(IMPERSONATION)]
    if not names:
        return None
    given = {name: _values(request, name) for name in names}
    for name in names:
        del request.headers[name]
    unknown = [name for name in names if name not in (_USER, _GROUP, _UID) and not name.startswith(_EXTRA)]
    if unknown:
        raise BadRequest(
            f"the header {unknown[0].decode('latin-1')} is not known: send Impersonate-User, Impersonate-Group, "
            "Impersonate-Uid or Impersonate-Extra-<name>"
        )
    user = given.get(_USER, [""])[0]
    if not user:
        others = [name for name in names if name != _USER and (name != _UID or given[name][0])]
        if not others:
            return None
        raise BadRequest(
            f"the header {others[0].decode('latin-1')} needs the header Impersonate-User with the name of a user: "
            "send it too, or leave both out"
        )
    extra: dict[str, list[str]] = {}
    for name in names:
        if name.startswith(_EXTRA):
            extra.setdefault(extra_key(name[len(_EXTRA) :]), []).extend(given[name])
    return WantedIdentity(
        user,
        tuple(given.get(_GROUP, ())),
        tuple((key, tuple(values)) for key, values in sorted(extra.items())),
        given.get(_UID, [""])[0],
    )


def _values(request: Request, name: bytes) -> list[str]:
    repeated = request.repeated.get(name) if request.repeated else None
    try:
        return [one.decode() for one in repeated or [request.headers[name]]]
    except UnicodeDecodeError:
        # Two such values could be shown, and authorized, as the same.
        raise BadRequest(f"the header {name.decode('latin-1')} is not UTF-8: send it as UTF-8") from None
