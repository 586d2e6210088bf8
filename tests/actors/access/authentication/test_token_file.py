from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.access.authentication.token_file import TokenFileError, parse_tokens, read_tokens
from rewound.actors.identity import User
from tests.cases import cases


def test_users_are_read_with_and_without_groups(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text(
        'admintoken,admin,uid-admin,"system:masters"\n\nalicetoken,alice,uid-alice,"devs,testers"\r\nbobtoken,bob,\n'
    )
    assert read_tokens(file) == {
        "admintoken": User("admin", "uid-admin", ("system:masters",)),
        "alicetoken": User("alice", "uid-alice", ("devs", "testers")),
        "bobtoken": User("bob"),
    }


@cases(
    ("text", "said"),
    [
        ("a,alice,1\nb,bob\n", "tokens.csv, line 2: needs at least the columns token,user,uid, has 2"),
        ("a,alice,1\n,bob,2\n", "line 2: has an empty token"),
        ("a,,1\n", "line 1: has an empty user name"),
        ("a,alice,1\na,bob,2\n", "line 2: repeats the token"),
        ("a,alice,1,devs,testers\n", "line 1: has more than 4 columns; put several groups in double quotes"),
        ('a,alice,1,"devs"x\n', "line 1: "),
    ],
)
def test_error_names_the_line_of_a_mistake(text: str, said: str) -> None:
    with pytest.raises(TokenFileError) as refused:
        parse_tokens(text.splitlines(keepends=True), "tokens.csv")
    assert said in str(refused.value)


def test_error_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match=r"nowhere\.csv: No such file"):
        read_tokens(tmp_path / "nowhere.csv")


def test_error_names_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_bytes(b"\xff\xfe,a,b\n")
    with pytest.raises(TokenFileError, match="is not UTF-8"):
        read_tokens(file)
