"""Path and method determine the route, whether or not the resource exists."""

from rewound.gateway.pipeline.route import find_route
from tests.cases import cases


@cases(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/namespaces/d/configmaps/w", ("get", "", "v1", "d", "configmaps", "w", "")),
        ("HEAD", "/api/v1/namespaces/d/configmaps/w", ("get", "", "v1", "d", "configmaps", "w", "")),
        ("GET", "/api/v1/namespaces/d/configmaps", ("list", "", "v1", "d", "configmaps", "", "")),
        ("GET", "/api/v1/namespaces/d/configmaps/", ("list", "", "v1", "d", "configmaps", "", "")),
        ("GET", "/api/v1/configmaps", ("list", "", "v1", "", "configmaps", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "", "namespaces", "", "")),
        ("PUT", "/api/v1/namespaces/d", ("update", "", "v1", "d", "namespaces", "d", "")),
        ("PUT", "/api/v1/namespaces/d/finalize", ("update", "", "v1", "d", "namespaces", "d", "finalize")),
        ("DELETE", "/apis/a.io/v1/things", ("deletecollection", "a.io", "v1", "", "things", "", "")),
        ("DELETE", "/apis/a.io/v1/things/t", ("delete", "a.io", "v1", "", "things", "t", "")),
        ("POST", "/apis/a.io/v1/namespaces/d/things", ("create", "a.io", "v1", "d", "things", "", "")),
        ("PATCH", "/apis/a.io/v1/things/t/status", ("patch", "a.io", "v1", "", "things", "t", "status")),
        ("GET", "/api/v1/namespaces/d/things/a%20b", ("get", "", "v1", "d", "things", "a b", "")),
        ("GET", "/api/v1/namespaces/d/things/a%2Fb", ("get", "", "v1", "d", "things", "a", "b")),
    ],
)
def test_resource_paths(method, path, expected):
    route = find_route(method, path)
    assert route.is_resource
    assert not route.has_extra_segments
    assert (
        route.verb,
        route.group,
        route.version,
        route.namespace,
        route.resource,
        route.name,
        route.subresource,
    ) == expected


@cases(
    "path", ["/", "/livez", "/livez/ping", "/api", "/api/v1", "/apis", "/apis/a.io", "/apis/a.io/v1", "/x/y"]
)
def test_other_paths_are_no_resources(path):
    route = find_route("GET", path)
    assert not route.is_resource
    assert (route.verb, route.path) == ("get", path)


def test_extra_segments_are_reported():
    assert find_route("GET", "/api/v1/namespaces/d/configmaps/a/b/c").has_extra_segments


def test_watch_parameter_turns_get_and_list_into_watch():
    assert find_route("GET", "/api/v1/configmaps", watch=True).verb == "watch"
    assert find_route("GET", "/api/v1/namespaces/d/configmaps/a", watch=True).verb == "watch"
    assert find_route("DELETE", "/api/v1/namespaces/d/configmaps/a", watch=True).verb == "delete"


def test_unknown_method_is_its_own_verb():
    assert find_route("OPTIONS", "/api/v1/configmaps").verb == ""
    assert find_route("OPTIONS", "/livez").verb == "options"
