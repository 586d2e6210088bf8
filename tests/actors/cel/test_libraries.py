"""Strings, lists, regular expressions and URLs: the libraries of cel-go and Kubernetes v1.25."""

from __future__ import annotations

import pytest

from rewound.actors.cel.go_regexp import InvalidExpression
from rewound.actors.cel.library import compile_expression
from rewound.actors.cel.urls import InvalidURL, parse_request_url, parse_url
from tests.actors.cel.evaluating import outcome
from tests.cases import cases

TRUE = [
    "self.s.charAt(1) == 'é' && self.s.charAt(11) == ''",
    "self.s.indexOf('l') == 2 && self.s.indexOf('l', 4) == 9 && self.s.indexOf('z') == -1 && ''.indexOf('') == 0",
    "self.s.lastIndexOf('l') == 9 && self.s.lastIndexOf('l', 8) == 3 && self.s.lastIndexOf('') == 11",
    "'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacocæt'.upperAscii() == 'TACOCæT'",
    "'a b a'.replace('a', 'x') == 'x b x' && 'a b a'.replace('a', 'x', 1) == 'x b a'",
    "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'é1'.split('') == ['é', '1']",
    "'a,b'.split(',', 0) == [] && 'abc'.split('', 2) == ['a', 'bc']",
    "self.s.substring(6) == 'wörld' && self.s.substring(1, 3) == 'él' && self.s.substring(11) == ''",
    "' \\t trim\\u00a0\\n'.trim() == 'trim'",
    "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
    "self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3 && !self.list.isSorted()",
    "self.list.indexOf(1) == 1 && self.list.lastIndexOf(5) == -1 && self.texts.isSorted()",
    "self.list.filter(x, false).sum() == 0",
    "self.s.matches('w.rld$') && !self.s.matches('^w') && self.s.find('[a-z]+') == 'h'",
    "self.s.findAll('l+') == ['ll', 'l'] && self.s.findAll('l', 1) == ['l'] && 'abc'.findAll('x*').size() == 4",
    "'baaac'.findAll('a*') == ['', 'aaa', '']",
    "isURL('https://example.org:80/a?b#c') && isURL('/a') && !isURL('a/b') && !isURL('http://[::1') && !isURL('')",
    "url('https://[::1]:80/a b?x=1&y=%20&x=2').getHostname() == '::1'",
    "url('https://[::1]:80/a b').getEscapedPath() == '/a%20b' && url('/a').getHost() == ''",
    "url('https://u:p@h:1/?x=1&y=+&x=2').getQuery() == {'x': ['1', '2'], 'y': [' ']}",
    "url('http://h/?a=%zz&b').getQuery() == {'b': ['']}",
    "url('HTTPS://h').getScheme() == 'https' && url('https://h:8/').getPort() == '8'",
]
ERRORS = {
    "[''].filter(x, false).min() == ''": "min called on empty list",
    "self.s.find(self.s + '(') == ''": "Illegal regex: error parsing regexp: missing closing ): `héllo wörld(`",
    "self.s.matches(self.s + '(')": "error parsing regexp: missing closing ): `héllo wörld(`",
    "url(self.s).getHost() == ''": "URL parse error during conversion from string: "
    'parse "héllo wörld": invalid URI for request',
}
URL_ERRORS = {
    "http://example.org/%zz": 'invalid URL escape "%zz"',
    "http://a b/": 'invalid character " " in host name',
    "http://a:b/": 'invalid port ":b" after host',
    "://x": "missing protocol scheme",
    "http://[::1": "missing ']' in host",
    "": "empty url",
    "\x7f": "net/url: invalid control character in URL",
}


@cases("rule", TRUE)
def test_expression_is_true(rule: str) -> None:
    assert outcome(rule) is True


@cases(("rule", "message"), ERRORS.items())
def test_error(rule: str, message: str) -> None:
    assert outcome(rule) == message


@cases(("text", "message"), URL_ERRORS.items())
def test_url_is_refused_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(InvalidURL) as refused:
        parse_request_url(text)
    assert str(refused.value).endswith(message)


@cases(
    "text",
    ["https://u:p@example.org:8443/a%20b/c?x=1&y=2#frag", "mailto:a@example.org", "/a/b?", "http://h/a%2Fb"],
)
def test_url_prints_as_it_was_written(text: str) -> None:
    assert str(parse_url(text)) == text


def test_expression_that_repeats_too_much_is_refused_and_not_compiled() -> None:
    with pytest.raises(InvalidExpression):
        compile_expression("((((a{1000}){1000}){1000}){1000})")
