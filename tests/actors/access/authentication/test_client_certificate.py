from __future__ import annotations

from typing import Any

from rewound.actors.access.authentication.authenticate import user_of_certificate
from rewound.actors.identity import User
from tests.cases import cases


@cases(
    ("subject", "user"),
    [
        (((("commonName", "alice"),),), User("alice")),
        (
            ((("organizationName", "b"),), (("organizationName", "a"),), (("commonName", "alice"),)),
            User("alice", groups=("b", "a")),
        ),
        (((("organizationName", "a"), ("commonName", "alice")),), User("alice", groups=("a",))),
        (((("commonName", "first"),), (("commonName", "last"),)), User("last")),
        (((("commonName", ""),),), None),
        ((), None),
    ],
)
def test_subject_of_the_certificate_is_the_user(subject: Any, user: User | None) -> None:
    assert user_of_certificate({"subject": subject}) == user
