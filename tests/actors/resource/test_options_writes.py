"""dryRun, fieldValidation and fieldManager of creates, updates and patches."""

from collections.abc import Sequence

import pytest

from rewound.actors.errors import Invalid
from rewound.actors.names import CLUSTER
from rewound.gateway.pipeline.options import PLAIN_WRITE, WriteOptions, write_options
from tests.cases import cases


def check(dry_run: Sequence[str] = (), validation: str = "", manager: str = "") -> WriteOptions:
    return write_options(CLUSTER, "CreateOptions", dry_run, validation, manager)


def refused(dry_run: Sequence[str] = (), validation: str = "", manager: str = "") -> Invalid:
    with pytest.raises(Invalid) as caught:
        check(dry_run, validation, manager)
    return caught.value


def test_write_without_options_is_persisted() -> None:
    assert check() == PLAIN_WRITE == WriteOptions(dry_run=False, field_validation="Warn")


@cases(("values", "dry"), [(["All"], True), (["All", "All"], True), ([""], False), (["", "All"], True)])
def test_only_the_value_all_is_a_dry_run(values: list[str], dry: bool) -> None:
    assert check(values).dry_run is dry


@cases("values", [["Foo"], ["All", "Foo"], ["all"], ["true"], ["All,All"]])
def test_unknown_dry_run_value_is_refused(values: list[str]) -> None:
    (cause,) = refused(values).causes
    assert (cause.reason, cause.field) == ("FieldValueNotSupported", "dryRun")
    assert cause.message.endswith(': supported values: "All"')


def test_message_quotes_the_refused_dry_run_values() -> None:
    assert 'dryRun: Unsupported value: []string{"All", "Foo"}: supported values: "All"' in str(
        refused(["All", "Foo"])
    )


@cases(("sent", "used"), [("", "Warn"), ("Warn", "Warn"), ("Ignore", "Ignore"), ("Strict", "Strict")])
def test_field_validation_defaults_to_warn(sent: str, used: str) -> None:
    assert check(validation=sent).field_validation == used


def test_unknown_field_validation_is_refused() -> None:
    assert str(refused(validation="Foo")) == (
        'CreateOptions.meta.cluster.io "" is invalid: fieldValidation: Unsupported value: "Foo": '
        'supported values: "", "Ignore", "Strict", "Warn"'
    )


@cases("manager", ["", "f" * 128, "my manager/v1 (x)", "ключ"])
def test_valid_manager_is_accepted(manager: str) -> None:
    check(manager=manager)


def test_manager_is_at_most_128_bytes_long() -> None:
    for manager in ("f" * 129, "é" * 65):
        (cause,) = refused(manager=manager).causes
        assert (cause.reason, cause.message) == ("FieldValueTooLong", "Too long: must have at most 128 bytes")


@cases(
    ("manager", "message"),
    [
        ("a\x07b", r'Invalid value: "a\ab": invalid character U+0007 (at position 1)'),
        ("\x00", r'Invalid value: "\x00": invalid character U+0000 (at position 0)'),
        ("é\nb", r'Invalid value: "é\nb": invalid character U+000A (at position 2)'),
    ],
)
def test_manager_with_unprintable_characters_is_refused(manager: str, message: str) -> None:
    (cause,) = refused(manager=manager).causes
    assert (cause.reason, cause.field, cause.message) == ("FieldValueInvalid", "fieldManager", message)


def test_all_errors_are_reported_together() -> None:
    causes = refused(["x"], "y", "\n").causes
    assert [cause.field for cause in causes] == ["fieldManager", "dryRun", "fieldValidation"]


def test_message_names_the_kind_of_the_options() -> None:
    with pytest.raises(Invalid, match=r'^UpdateOptions\.meta\.cluster\.io "" is invalid'):
        write_options(CLUSTER, "UpdateOptions", ["x"], "", "")
