"""The addresses of a load balancer: part of the status of services and of ingresses."""

from __future__ import annotations

from typing import Final

from actors.kinds.schema.fields import INT32, STRING, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, dns_subdomain, invalid, parse_ip
from actors.messages import Object

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

PORT_STATUS = Struct(
    "core.v1.PortStatus",
    Field("port", INT32, 1, required=True, always=True),
    Field("protocol", STRING, 2, required=True, always=True, enum=PROTOCOLS),
    Field("error", STRING, 3, pointer=True),
)
LOAD_BALANCER_INGRESS = Struct(
    "core.v1.LoadBalancerIngress",
    Field("ip", STRING, 1),
    Field("hostname", STRING, 2),
    Field("ports", ListOf(PORT_STATUS), 4, list_type="atomic"),
)
LOAD_BALANCER_STATUS = Struct(
    "core.v1.LoadBalancerStatus", Field("ingress", ListOf(LOAD_BALANCER_INGRESS), 1)
)


def load_balancer_addresses(status: Object) -> list[str]:
    """Each address once, in alphabetical order."""
    points = status.get("ingress", ())
    return sorted({address for one in points if (address := one.get("ip") or one.get("hostname"))})


def load_balancer_rules(errors: FieldErrors, status: Object, field: str) -> None:
    for index, ingress in enumerate(status.get("ingress", ())):
        here, ip, host = f"{field}.ingress[{index}]", ingress.get("ip", ""), ingress.get("hostname", "")
        if ip and parse_ip(ip) is None:
            errors.add(invalid(f"{here}.ip", ip, "must be a valid IP address"))
        if host:
            errors.add_each(f"{here}.hostname", host, dns_subdomain(host))
        if host and parse_ip(host) is not None:
            errors.add(invalid(f"{here}.hostname", host, "must be a DNS name, not an IP address"))
