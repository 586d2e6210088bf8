"""ServiceAccount: only the names of listed secrets are stored."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions

SENT = {
    "metadata": {"name": "a"},
    "secrets": [{"name": "s", "namespace": "other", "uid": "u"}, {"kind": "Secret"}],
}


def test_secret_references_are_reduced_to_names(kinds: Definitions) -> None:
    assert kinds.stored("serviceaccounts", SENT)["secrets"] == [{"name": "s"}, {}]
    assert kinds.update("serviceaccounts", SENT, SENT)[0]["secrets"] == [{"name": "s"}, {}]


def test_delete_returns_the_object(kinds: Definitions) -> None:
    assert kinds["serviceaccounts"].deletion.returns_object


def test_automount_false_is_kept(kinds: Definitions) -> None:
    document = {"metadata": {"name": "a"}, "automountServiceAccountToken": False}
    assert kinds.decode("serviceaccounts", document)["automountServiceAccountToken"] is False
