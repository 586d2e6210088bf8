"""The libraries of Kubernetes: sets, quantities, addresses, formats, semantic versions."""

from __future__ import annotations

from typing import Any

from rewound.actors.cel.language import language_of
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import CEL_JSON_PATCH, choose_release
from tests.actors.cel.test_languages import result_of
from tests.cases import cases

FEATURES = choose_release("1.36").features
NEWEST = language_of(KUBERNETES, FEATURES, also=(CEL_JSON_PATCH,))

TRUE = [
    "quantity('1.5Gi').add(quantity('512Mi')).compareTo(quantity('2Gi')) == 0",
    "quantity('1k').sub(1).asInteger() == 999 && sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
    "quantity('100m').asApproximateFloat() == 0.1 && !quantity('100m').isInteger() && quantity('5k').isInteger()",
    "isQuantity('1Ki') && !isQuantity('1Kii') && quantity('1').isLessThan(quantity('2'))",
    "quantity('2').isGreaterThan(quantity('1')) && quantity('1.0') == quantity('1')",
    "quantity('9223372036854775807').add(1).isGreaterThan(quantity('9223372036854775807'))",
    "sets.contains([1, 2, 3], [1, 3]) && !sets.contains([1], [2]) && sets.contains([1], [])",
    "sets.equivalent([1, 1, 2], [2, 1]) && !sets.equivalent([1], [1, 2])",
    "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2]) && !sets.intersects([], [])",
    "ip('192.168.0.1').family() == 4 && ip('::1').family() == 6 && ip('::1').isLoopback()",
    "ip.isCanonical('::1') && !ip.isCanonical('0::1') && isIP('1.2.3.4') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4')",
    "ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()",
    "ip('8.8.8.8').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && string(ip('0:0::1')) == '::1'",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.0'))",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))",
    "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0 && isCIDR('::/0')",
    "string(cidr('10.1.2.3/8')) == '10.1.2.3/8' && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')",
    "type(ip('::1')) == net.IP && type(cidr('::/1')) == net.CIDR",
    "!format.dns1123Label().validate('a').hasValue() && format.dns1123Label().validate('a.b').value() == "
    "['must not contain dots']",
    "format.named('uuid').value() == format.uuid() && !format.named('x').hasValue()",
    "!format.dns1123LabelPrefix().validate('a-').hasValue() && !format.labelValue().validate('').hasValue()",
    "format.date().validate('2021-02-30').value() == ['invalid date'] && format.byte().validate('a').hasValue()",
    "!format.datetime().validate('2021-02-03T04:05:06Z').hasValue() && format.uri().validate('a').hasValue()",
    "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.2.3+a') == semver('1.2.3+b')",
    "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    "semver('v01.2', true).compareTo(semver('1.2.0')) == 0 && isSemver('v1', true) && !isSemver('v1')",
    "semver('1.0.0-1').isLessThan(semver('1.0.0-a')) && semver('1.0.0-a.b').isGreaterThan(semver('1.0.0-a'))",
    "jsonpatch.escapeKey('k8s.io/my~label') == 'k8s.io~1my~0label'",
]
ERRORS = {
    "quantity('a')": "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "quantity('1.5').asInteger()": "cannot convert value to integer",
    "quantity('1') == quantity('0').add(1)": "no such overload",
    "ip('1.2.3')": 'IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): '
    "IPv4 address too short",
    "ip('fe80::1%a')": 'IP address "fe80::1%a" with zone value is not allowed',
    "ip('::ffff:1.2.3.4')": 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
    "cidr('1')": "network address parse error during conversion from string: network address parse error during "
    "conversion from string: netip.ParsePrefix(\"1\"): no '/'",
    "cidr('::/0').containsIP('x')": "no such overload",
    "semver('1.2')": "No Major.Minor.Patch elements found",
    "semver('1.2.03')": 'Patch number must not contain leading zeroes "03"',
    "semver('v1-a', true)": "short version cannot contain PreRelease/Build meta data",
    "semver('1.2.99999999999999999999')": 'strconv.ParseUint: parsing "99999999999999999999": value out of range',
}


@cases("source", TRUE)
def test_expression_is_true(source: str) -> None:
    assert result_of(source, NEWEST) is True


@cases(("source", "message"), ERRORS.items())
def test_error(source: str, message: str) -> None:
    assert result_of(source, NEWEST) == message


@cases(
    "since, source",
    [
        ("1.28", "quantity('1') == quantity('1')"),
        ("1.29", "sets.contains([1], [1])"),
        ("1.30", "ip('::1') == ip('::1') && cidr('::/0').containsIP('::1')"),
        ("1.31", "!format.named('date').value().validate('2021-02-03').hasValue()"),
        ("1.33", "semver('1.2.3') == semver('1.2.3')"),
    ],
)
def test_new_expressions_may_use_a_library_one_version_after_stored_ones(since: str, source: str) -> None:
    features, later = choose_release(since).features, choose_release(f"1.{int(since[2:]) + 1}").features
    earlier = choose_release(f"1.{int(since[2:]) - 1}").features
    assert result_of(source, language_of(KUBERNETES, later)) is True
    assert result_of(source, language_of(KUBERNETES, features, stored=True)) is True
    for language in (language_of(KUBERNETES, features), language_of(KUBERNETES, earlier, stored=True)):
        found: Any = result_of(source, language)
        assert "undeclared reference" in found


def test_networks_in_networks_before_1_32() -> None:
    language = language_of(KUBERNETES, choose_release("1.31").features)
    source = "cidr('10.0.0.0/8').containsCIDR('{}')"
    assert result_of(source.format("10.1.0.0/16"), language) is False
    assert result_of(source.format("10.0.0.0/16"), language) is True
