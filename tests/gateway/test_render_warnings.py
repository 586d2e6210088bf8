"""Warnings in an answer's head: each once, and cut short when they are too many."""

from gateway.requests.render import warning_headers


def test_what_was_told_is_not_told_again() -> None:
    assert list(warning_headers(["a", "b", "a"])) == [b'299 - "a"', b'299 - "b"']


def test_long_ones_are_whole_as_long_as_all_fit() -> None:
    assert list(warning_headers(["x" * 4096])) == [b'299 - "%b"' % (b"x" * 4096)]


def test_all_are_cut_when_one_is_too_many() -> None:
    texts = [f"{number:02}" + "x" * 298 for number in range(20)]
    told = list(warning_headers(texts))
    assert [len(text) for text in told] == [len(b'299 - ""') + 256] * 16
    assert told[0] == b'299 - "00%b"' % (b"x" * 254)


def test_quotes_are_escaped_and_lines_stay_one() -> None:
    assert list(warning_headers(['a "b"\\\nc'])) == [b'299 - "a \\"b\\"\\\\ c"']
