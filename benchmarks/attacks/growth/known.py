"""Cases that no declaration yields: expressions, pairs of lists of several objects, selectors, depths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from benchmarks.attacks.growth.cases import (
    CHARACTERS,
    ELEMENTS,
    Case,
    Document,
    Request,
    Size,
    definition_of,
    objects,
)

MAPS: Final = "/api/v1/namespaces/default/configmaps"
PODS: Final = "/api/v1/namespaces/default/pods"
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_CUSTOM: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_THINGS: Final = "/apis/growth.example.com/v1/namespaces/default/things"
_DEVICES: Final = "/apis/resource.k8s.io/v1"
_DOUBLINGS: Final = (4, 8, 12, 16, 20, 24, 27)
_VALUES: Final = (16, 256, 4096, 16384, 65536, 90000)
_INTERVALS: Final = (16, 256, 4096, 16384, 49000)
_RULE: Final = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


def _object(name: str = "growth", **parts: Any) -> Document:
    return {"metadata": {"name": name}, **parts}


Bind = Callable[[str, str, str], str]  # an expression in which a variable has a value


def _in_a_list(name: str, value: str, text: str) -> str:
    """As everywhere: policies and rules have no cel.bind."""
    return f"[{value}].map({name}, {text})[0]"


def _in_a_bind(name: str, value: str, text: str) -> str:
    return f"cel.bind({name}, {value}, {text})"


def _bound(count: int, first: str, double: str, last: str, bind: Bind = _in_a_list) -> str:
    """Variables v0 and so on, of which each is made of the one before, twice: {v}."""
    text = last.replace("{v}", f"v{count}")
    for number in range(count, 0, -1):
        text = bind(f"v{number}", double.replace("{v}", f"v{number - 1}"), text)
    return bind("v0", first, text)


def _doubled_lists(count: int, bind: Bind = _in_a_list) -> str:
    return _bound(count, "[1, 2, 3, 4]", "{v} + {v}", "{v}.size() > 0", bind)


def _doubled_message(count: int) -> str:
    return _bound(count, "[1, 2, 3, 4]", "{v} + {v}", "string({v}.size())")


def _shared_lists(count: int) -> str:
    text = _bound(count, "[1]", "[{v}, {v}]", f"{{v}} == w{count}")
    for number in range(count, 0, -1):
        text = _in_a_list(f"w{number}", f"[w{number - 1}, w{number - 1}]", text)
    return _in_a_list("w0", "[1]", text)


def _doubled_texts(count: int) -> str:
    return _bound(count, "'abcd'", "{v} + {v}", "{v}.size() > 0")


def _loops(count: int) -> str:
    text = "a0 != 'x'"
    for number in reversed(range(count)):
        text = f"object.data.all(a{number}, {text})"
    return text


_SHORT: Final[dict[str, tuple[Callable[[int], str], tuple[int, ...]]]] = {
    "doubled lists": (_doubled_lists, _DOUBLINGS),
    "shared lists that are compared": (_shared_lists, _DOUBLINGS),
    "doubled texts": (_doubled_texts, _DOUBLINGS),
    "loops in loops": (_loops, (1, 2, 3, 4)),
    "a long list": (lambda count: f"[{', '.join(['1'] * count)}].size() > 0", (64, 256, 1024, 4096)),
    "a long text": (
        lambda count: f"'{'a' * count}' != object.metadata.name",
        (1000, 4000, 16000),
    ),
    "a long pattern": (
        lambda count: f"object.metadata.name.matches('({'a?' * count}b)*')",
        (16, 64, 256, 1024),
    ),
    "many terms": (lambda count: " && ".join(["true"] * count), (64, 256, 1024, 4096)),
    "deep parentheses": (lambda count: "(" * count + "true" + ")" * count, (16, 64, 256, 1024)),
}


def _policy(count: int, **spec: Any) -> Size:
    constraints = {"resourceRules": [_RULE]}
    policy = _object(spec={"failurePolicy": "Ignore", "matchConstraints": constraints, **spec})
    binding = _object(spec={"policyName": "growth", "validationActions": ["Deny"]})
    write = _object("growth-map", data={f"k{number}": "value" for number in range(30)})
    return Size(
        (),
        (
            Request("POST", _POLICIES, policy, admin=True),
            Request("POST", _BINDINGS, binding, admin=True),
            *(Request("POST", f"{MAPS}?dryRun=All", write) for _ in range(3)),
            Request("DELETE", f"{_BINDINGS}/growth", admin=True),
            Request("DELETE", f"{_POLICIES}/growth", admin=True),
        ),
    )


def _validated(make: Callable[[int], str]) -> Callable[[int], Size]:
    return lambda count: _policy(count, validations=[{"expression": make(count)}])


def _with_message(count: int) -> Size:
    return _policy(count, validations=[{"expression": "false", "messageExpression": _doubled_message(count)}])


def _with_variables(count: int) -> Size:
    variables = [{"name": "v0", "expression": "[1, 2, 3, 4]"}]
    for number in range(count):
        again = f"variables.v{number} + variables.v{number}"
        variables.append({"name": f"v{number + 1}", "expression": again})
    return _policy(count, variables=variables, validations=[{"expression": f"variables.v{count}.size() > 0"}])


def _definition(rule: str, most: int = 10) -> Document:
    items = {"type": "array", "maxItems": most, "items": {"type": "string", "maxLength": 10}}
    spec = {"type": "object", "properties": {"items": items}, "x-kubernetes-validations": [{"rule": rule}]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    return {
        "metadata": {"name": "things.growth.example.com"},
        "spec": {"group": "growth.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _ruled(make: Callable[[int], str]) -> Callable[[int], Size]:
    def size(count: int) -> Size:
        thing = _object(apiVersion="growth.example.com/v1", kind="Thing", spec={"items": ["a"] * 10})
        return Size(
            (),
            (
                Request("POST", _CUSTOM, _definition(make(count)), admin=True),
                *(Request("POST", f"{_THINGS}?dryRun=All", thing, admin=True) for _ in range(3)),
                Request("DELETE", f"{_CUSTOM}/things.growth.example.com", admin=True),
            ),
        )

    return size


def _custom_items(count: int) -> Size:
    thing = _object(
        apiVersion="growth.example.com/v1", kind="Thing", spec={"items": [f"i{n}" for n in range(count)]}
    )
    rule = "self.items.all(i, i != 'x')"
    return Size(
        (),
        (
            Request("POST", _CUSTOM, _definition(rule, 100_000), admin=True),
            Request("POST", _THINGS, thing, admin=True),
            Request(
                "PATCH",
                f"{_THINGS}/growth",
                {"metadata": {"labels": {"a": "b"}}},
                "merge-patch+json",
                admin=True,
            ),
            Request("DELETE", f"{_CUSTOM}/things.growth.example.com", admin=True),
        ),
    )


def _claim(requests: list[Document]) -> tuple[Request, ...]:
    """A claim of a user, a pod that needs it, and the devices that an administrator has."""
    claim = _object(spec={"devices": {"requests": requests}})
    pod = _object(
        "growth-claims",
        spec={
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "c", "resourceClaimName": "growth"}],
        },
    )
    return (
        Request("POST", f"{_DEVICES}/namespaces/default/resourceclaims", claim),
        Request("POST", PODS, pod),
        Request("DELETE", f"{PODS}/growth-claims?gracePeriodSeconds=0"),
        Request("DELETE", f"{_DEVICES}/namespaces/default/resourceclaims/growth"),
    )


def _devices(count: int) -> tuple[Request, ...]:
    devices = [{"name": f"d{n}", "attributes": {"index": {"int": n}}} for n in range(count)]
    pool = {"name": "growth", "generation": 1, "resourceSliceCount": 1}
    slices = _object(
        spec={"driver": "growth.example.com", "pool": pool, "allNodes": True, "devices": devices}
    )
    return (
        Request("POST", f"{_DEVICES}/deviceclasses", _object(spec={}), admin=True),
        Request("DELETE", f"{_DEVICES}/resourceslices/growth", admin=True),
        Request("POST", f"{_DEVICES}/resourceslices", slices, admin=True),
    )


def _requested(number: int, selectors: list[str]) -> Document:
    chosen = [{"cel": {"expression": expression}} for expression in selectors]
    return {"name": f"r{number}", "exactly": {"deviceClassName": "growth", "selectors": chosen}}


def _doubled_selector(count: int) -> Size:
    return Size(_devices(8), _claim([_requested(0, [_doubled_lists(count, _in_a_bind)])]))


def _selectors(count: int) -> Size:
    """Selectors x devices: the last request matches none, so that all devices are tried for the others."""
    ones = ", ".join(["1"] * 60)
    looks = [f"[{ones}].all(a, [1, 2, 3].exists(b, b < device.attributes.size() + {n}))" for n in range(30)]
    requests = [_requested(number, looks) for number in range(count - 1)]
    requests.append(_requested(count - 1, [*looks, "device.driver == 'none'"]))
    return Size(_devices(128), _claim(requests))


_CONTAINER: Final = {"name": "c", "image": "i"}


def _pod(**spec: Any) -> Document:
    return _object(spec={"containers": [_CONTAINER], **spec})


def _containers_with_resources(count: int) -> Size:
    """Containers x names of resources."""
    containers = [
        {
            "name": f"c{number}",
            "image": "i",
            "resources": {
                "requests": {f"example.com/r{number}": "1"},
                "limits": {f"example.com/r{number}": "1"},
            },
        }
        for number in range(count)
    ]
    return objects(definition_of("pods"), _pod(containers=containers))


def _sidecars(count: int) -> Size:
    sidecars = [
        {
            "name": f"s{number}",
            "image": "i",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "1m"}},
        }
        for number in range(count)
    ]
    return objects(definition_of("pods"), _pod(initContainers=sidecars))


def _terms(count: int) -> Size:
    """Terms x nodes."""
    terms = [
        {"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["v"]}]} for n in range(count)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return objects(definition_of("pods"), _pod(affinity={"nodeAffinity": required}))


def _values_of_terms(count: int) -> Size:
    """Values x terms x nodes."""
    values = [f"v{number}" for number in range(count)]
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": values}]}
    ] * 8
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return objects(definition_of("pods"), _pod(affinity={"nodeAffinity": required}))


def _selected_values(plural: str) -> Callable[[int], Size]:
    """Values in the selector of a workload, of which its pods have the first."""

    def size(count: int) -> Size:
        values = [f"v{number}" for number in range(count)]
        template = {"metadata": {"labels": {"app": "v0"}}, "spec": {"containers": [_CONTAINER]}}
        selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
        return objects(definition_of(plural), _object(spec={"selector": selector, "template": template}))

    return size


def _environments(plural: str, **more: Any) -> Callable[[int], Size]:
    """Variables in the template of a workload."""

    def size(count: int) -> Size:
        container = {**_CONTAINER, "env": [{"name": f"V{n}", "value": "a"} for n in range(count)]}
        template = {"metadata": {"labels": {"app": "v"}}, "spec": {"containers": [container]}}
        selector = {"matchLabels": {"app": "v"}}
        spec = {"selector": selector, "template": template, **more}
        return objects(definition_of(plural), _object(spec=spec))

    return size


def _templates_text(count: int) -> Size:
    """One long text in the template of a Deployment."""
    annotations = {f"k{number}": "a" * min(count, 262144 // 8) for number in range(max(1, count // 32768))}
    container = {**_CONTAINER, "args": ["a" * count]}
    template = {
        "metadata": {"labels": {"app": "v"}, "annotations": annotations if count < 262144 else {}},
        "spec": {"containers": [container]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "v"}}, "template": template}
    return objects(definition_of("deployments"), _object(spec=spec))


def _counted_indexes(field: str) -> Callable[[int], Size]:
    """Intervals of indexes in the status of a Job, of which none is that of a pod that runs."""

    def size(count: int) -> Size:
        spec = {
            "completions": 2 * count + 2,
            "parallelism": 1,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
            "template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}},
        }
        counted = {"status": {field: ",".join(str(2 * number + 1) for number in range(count))}}
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        job = f"{jobs}/growth"
        return Size(
            (),
            (
                Request("POST", jobs, _object(spec=spec)),
                Request("PATCH", f"{job}/status", counted, "merge-patch+json", admin=True),
                Request("PATCH", job, {"metadata": {"labels": {"a": "b"}}}, "merge-patch+json"),
                Request("PATCH", job, {"spec": {"parallelism": 2}}, "merge-patch+json"),
                Request("DELETE", f"{job}?propagationPolicy=Background"),
            ),
        )

    return size


def _sliced_addresses(count: int) -> Size:
    """Addresses of an EndpointSlice, which a Service has, and its ports."""
    slices = {
        "metadata": {"name": "growth", "labels": {"kubernetes.io/service-name": "growth"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [f"10.{n >> 8 & 255}.{n & 255}.7"]} for n in range(min(count, 1000))],
        "ports": [{"name": f"p{n}", "port": n + 1} for n in range(min(count, 20000))],
    }
    return objects(definition_of("endpointslices"), slices, admin=True)


def _addresses(count: int) -> Size:
    """Addresses of Endpoints without a selector, of which slices are mirrored."""
    addresses = [{"ip": f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"} for n in range(1, count + 1)]
    return _mirrored([{"addresses": addresses, "ports": [{"port": 80}]}])


def _endpoint_ports(count: int) -> Size:
    ports = [{"name": f"p{n}", "port": n % 65535 + 1} for n in range(count)]
    return _mirrored([{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}])


def _subsets(count: int) -> Size:
    """Addresses x ports."""
    return _mirrored(
        [
            {"addresses": [{"ip": f"10.0.{n >> 8}.{n & 255}"}], "ports": [{"port": n % 65535 + 1}]}
            for n in range(1, count + 1)
        ]
    )


def _service_ports(count: int) -> Size:
    """Ports of a Service x pods that it selects, of which one has a named port."""
    services = "/api/v1/namespaces/default/services"
    ports = [{"name": f"p{n}", "port": n + 1, "targetPort": f"t{n % 3}"} for n in range(count)]
    named = [{"name": f"t{n}", "containerPort": 8000 + n} for n in range(3)]
    pods = [
        {
            "metadata": {"name": f"growth-{number}", "labels": {"app": "growth"}},
            "spec": {"containers": [{**_CONTAINER, "ports": named[: number + 1]}]},
        }
        for number in range(3)
    ]
    service = _object(spec={"selector": {"app": "growth"}, "ports": ports})
    return Size(
        tuple(Request("POST", PODS, pod) for pod in pods),
        (
            Request("POST", services, service),
            Request("PATCH", f"{PODS}/growth-0", {"metadata": {"labels": {"a": "b"}}}, "merge-patch+json"),
            *(Request("DELETE", f"{PODS}/growth-{n}?gracePeriodSeconds=0") for n in range(3)),
            Request("DELETE", f"{services}/growth"),
        ),
    )


def _mirrored(subsets: list[Document]) -> Size:
    service = _object(spec={"ports": [{"port": 80}]})
    services = "/api/v1/namespaces/default/services"
    written = objects(definition_of("endpoints"), _object(subsets=subsets), admin=True)
    return msgspec.structs.replace(
        written,
        prepare=(Request("POST", services, service),),
        measured=(*written.measured, Request("DELETE", f"{services}/growth")),
    )


def _preferred_terms(count: int) -> Size:
    """Preferred terms x nodes."""
    terms = [
        {
            "weight": 1,
            "preference": {"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["v"]}]},
        }
        for n in range(count)
    ]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return objects(definition_of("pods"), _pod(affinity={"nodeAffinity": preferred}))


def _pod_terms(kind: str, *, required: bool) -> Callable[[int], Size]:
    """Terms that select pods x pods x nodes; another pod, which is on a node, has as many."""

    def size(count: int) -> Size:
        terms: list[Document] = [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"v{n}"]}]
                },
            }
            for n in range(count)
        ]
        if not required:
            terms = [{"weight": 1, "podAffinityTerm": term} for term in terms]
        when = "required" if required else "preferred"
        affinity = {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": terms}}
        spec = {"containers": [_CONTAINER], "affinity": affinity}
        first = {"metadata": {"name": "growth-first", "labels": {"app": "v0"}}, "spec": spec}
        pod = {"metadata": {"name": "growth", "labels": {"app": "v0"}}, "spec": spec}
        written = objects(definition_of("pods"), pod)
        return msgspec.structs.replace(
            written,
            measured=(
                Request("POST", PODS, first),
                *written.measured,
                Request("DELETE", f"{PODS}/growth-first?gracePeriodSeconds=0"),
            ),
        )

    return size


def _tolerations(count: int) -> Size:
    """Tolerations x taints of nodes."""
    tolerations = [{"key": f"example.com/k{n}", "operator": "Exists"} for n in range(count)]
    return objects(definition_of("pods"), _pod(tolerations=tolerations))


def _volumes_and_mounts(count: int) -> Size:
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(count)]
    mounts = [{"name": f"v{n}", "mountPath": f"/m{n}"} for n in range(count)]
    containers = [{"name": "c", "image": "i", "volumeMounts": mounts}]
    return objects(definition_of("pods"), _pod(containers=containers, volumes=volumes))


def _owners(count: int) -> Size:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{n}", "uid": f"uid-{n}"} for n in range(count)
    ]
    return objects(definition_of("configmaps"), {"metadata": {"name": "growth", "ownerReferences": owners}})


def _managers(count: int) -> Size:
    """Fields in managedFields that nest so deep."""
    fields: Document = {}
    for number in range(count):
        fields = {f"f:a{number}": fields}
    entry = {
        "manager": "m",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": fields},
    }
    return objects(definition_of("configmaps"), {"metadata": {"name": "growth", "managedFields": [entry]}})


def _data(count: int) -> Size:
    return objects(definition_of("configmaps"), _object(data={f"k{n}": "aaaaaaaa" for n in range(count)}))


def _long_value(count: int) -> Size:
    return objects(definition_of("configmaps"), _object(data={"k": "a" * count}))


def _labelled() -> tuple[Request, ...]:
    return tuple(
        Request("POST", MAPS, {"metadata": {"name": f"listed-{n}", "labels": {"a": f"v{n}"}}})
        for n in range(100)
    )


def _label_values(count: int) -> Size:
    values = ",".join(f"v{n}" for n in range(count))
    reads = tuple(Request("GET", f"{MAPS}?labelSelector=a%20notin%20({values})") for _ in range(3))
    return Size(_labelled(), reads)


def _label_terms(count: int) -> Size:
    terms = ",".join(f"k{n}!%3Dv" for n in range(count))
    reads = tuple(Request("GET", f"{MAPS}?labelSelector={terms}") for _ in range(3))
    return Size(_labelled(), reads)


def _field_terms(count: int) -> Size:
    terms = ",".join(f"metadata.name!%3Dn{n}" for n in range(count))
    return Size(_labelled(), tuple(Request("GET", f"{MAPS}?fieldSelector={terms}") for _ in range(3)))


def _patch_operations(count: int) -> Size:
    # Client encodes any JSON; a JSON patch is a list.
    operations: Any = [{"op": "add", "path": f"/data/k{n}", "value": "v"} for n in range(count)]
    return Size(
        (Request("POST", MAPS, _object(data={"a": "b"})),),
        (
            Request("PATCH", f"{MAPS}/growth", operations, "json-patch+json"),
            Request("DELETE", f"{MAPS}/growth"),
        ),
    )


def _inserted(count: int) -> Size:
    """Items that a JSON patch puts at the start of a list."""
    operations: Any = [
        {"op": "add", "path": "/metadata/finalizers/0", "value": f"example.com/f{n}"} for n in range(count)
    ]
    new = {"metadata": {"name": "growth", "finalizers": ["example.com/a"]}}
    gone: Any = {"metadata": {"finalizers": None}}
    return Size(
        (Request("POST", MAPS, new),),
        (
            Request("PATCH", f"{MAPS}/growth", operations, "json-patch+json"),
            Request("PATCH", f"{MAPS}/growth", gone, "merge-patch+json"),
            Request("DELETE", f"{MAPS}/growth"),
        ),
    )


def _expressions() -> list[Case]:
    cases = []
    for name, (make, sizes) in _SHORT.items():
        cases.append(Case(f"policy: {name}", _validated(make), sizes, fits=False))
        if "object" not in make(1):
            cases.append(Case(f"rule of a definition: {name}", _ruled(make), sizes, fits=False))
    return [
        *cases,
        Case("policy: doubled variables", _with_variables, _DOUBLINGS, fits=False),
        Case("policy: doubled lists in a message", _with_message, _DOUBLINGS, fits=False),
        Case("selector of a device: doubled lists", _doubled_selector, _DOUBLINGS, "nodes", fits=False),
    ]


KNOWN: Final[tuple[Case, ...]] = (
    *_expressions(),
    Case("selectors x devices", _selectors, (1, 4, 16, 32), "nodes", fits=False),
    Case("containers x names of resources", _containers_with_resources, ELEMENTS, "nodes"),
    Case("sidecars", _sidecars, ELEMENTS, "nodes"),
    Case("node selector terms x nodes", _terms, ELEMENTS, "nodes"),
    Case("values x terms x nodes", _values_of_terms, ELEMENTS, "nodes"),
    Case("tolerations x taints", _tolerations, ELEMENTS, "nodes"),
    Case("volumes x mounts", _volumes_and_mounts, ELEMENTS, "nodes"),
    Case("preferred node terms x nodes", _preferred_terms, ELEMENTS, "nodes"),
    *(
        Case(
            f"{'required' if required else 'preferred'} {kind} terms x pods",
            _pod_terms(kind, required=required),
            ELEMENTS,
            "nodes",
        )
        for kind in ("podAffinity", "podAntiAffinity")
        for required in (True, False)
    ),
    *(
        Case(f"values of the selector of {plural}", _selected_values(plural), _VALUES, "nodes")
        for plural in ("replicasets", "deployments", "daemonsets", "statefulsets")
    ),
    *(
        Case(f"variables in the template of {plural}", _environments(plural), ELEMENTS, "nodes")
        for plural in ("replicasets", "deployments", "daemonsets", "statefulsets")
    ),
    Case("long text in the template of a Deployment", _templates_text, CHARACTERS, "nodes"),
    *(
        Case(f"intervals in {field} of a Job", _counted_indexes(field), _INTERVALS, "nodes")
        for field in ("completedIndexes", "failedIndexes")
    ),
    Case("addresses and ports of an EndpointSlice", _sliced_addresses, (16, 256, 1024, 4096, 16384), "nodes"),
    Case("addresses of Endpoints", _addresses, ELEMENTS, "nodes"),
    Case("ports of Endpoints", _endpoint_ports, ELEMENTS, "nodes"),
    Case("ports of a Service x pods", _service_ports, ELEMENTS, "nodes"),
    Case("subsets of Endpoints", _subsets, (16, 64, 256, 1024), "nodes"),
    Case("items of a custom object", _custom_items),
    Case("owner references", _owners),
    Case("depth of managedFields", _managers, (50, 100, 200, 400, 580), fits=False),
    Case("keys of a ConfigMap", _data),
    Case("values of a label selector", _label_values, (16, 256, 4096, 16384)),
    Case("requirements of a label selector", _label_terms, (16, 256, 2900)),
    Case("terms of a field selector", _field_terms, (16, 256, 2900)),
    Case("operations of a JSON patch", _patch_operations, (16, 256, 1024, 4096, 9900)),
    Case("items that a JSON patch inserts", _inserted, (16, 256, 1024, 4096, 9900)),
    Case("recorder: keys of a ConfigMap", _data, target="flight"),
    Case("recorder: long value of a ConfigMap", _long_value, (4096, 65536, 262144, 1048576), "flight"),
    Case("recorder: depth of managedFields", _managers, (50, 100, 200, 400, 580), "flight", fits=False),
    Case("recorder: containers of a pod", _containers_with_resources, target="flight"),
    Case("recorder: owner references", _owners, target="flight"),
)
