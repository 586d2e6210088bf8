"""Warnings in an answer's head: each once, and cut short when they are too many."""

from actors.kinds.schema.problems import Problems
from gateway.requests.render import warning_headers


def test_what_was_told_is_not_told_again() -> None:
    assert list(warning_headers(["a", "b", "a"])) == [b'299 - "a"', b'299 - "b"']


def test_long_ones_are_whole_as_long_as_all_fit() -> None:
    assert list(warning_headers(["x" * 4000])) == [b'299 - "%b"' % (b"x" * 4000)]


def test_all_are_cut_when_one_is_too_many() -> None:
    texts = [f"{number:02}" + "x" * 298 for number in range(20)]
    *shown, last = warning_headers(texts)
    assert [len(text) for text in shown] == [len(b'299 - ""') + 256] * 15
    assert shown[0] == b'299 - "00%b"' % (b"x" * 254)
    assert last == b'299 - "5 more warnings were left out"'


def test_bytes_count_not_letters() -> None:
    *shown, last = warning_headers(["\N{SNOWMAN}" * 250 + str(number) for number in range(10)])
    assert sum(map(len, shown)) <= 4096
    assert last == b'299 - "5 more warnings were left out"'


def test_no_more_than_sixty_lines() -> None:
    *shown, last = warning_headers([str(number) for number in range(99)])
    assert len(shown) == 60
    assert last == b'299 - "39 more warnings were left out"'


def test_problems_that_were_only_counted_count() -> None:
    problems = Problems(f"{number:0200}" for number in range(300))
    *shown, last = warning_headers([*problems.texts(), "another"])
    left = 300 - len(shown) + 1
    assert last == b'299 - "%d more warnings were left out"' % left


def test_quotes_are_escaped_and_lines_stay_one() -> None:
    assert list(warning_headers(['a "b"\\\nc'])) == [b'299 - "a \\"b\\"\\\\ c"']
