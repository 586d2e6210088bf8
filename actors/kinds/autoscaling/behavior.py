"""`behavior` of a HorizontalPodAutoscaler: stabilization window and policies for scaling up and scaling down."""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.schema.fields import INT32, STRING, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, invalid, not_supported, required
from actors.messages import Object

MAX_PERIOD_SECONDS: Final = 1800
MAX_STABILIZATION_WINDOW_SECONDS: Final = 3600
POLICY_TYPES: Final = ("Percent", "Pods")
SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
DIRECTIONS: Final = ("scaleUp", "scaleDown")
RULES_FIELDS: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies")
_DEFAULT_PERIOD_SECONDS: Final = 15


def behavior(version: str, *, list_type: str = "") -> Struct:
    policy = Struct(
        f"autoscaling.{version}.HPAScalingPolicy",
        Field("type", STRING, 1, required=True, always=True),
        Field("value", INT32, 2, required=True, always=True),
        Field("periodSeconds", INT32, 3, required=True, always=True),
    )
    rules = Struct(
        f"autoscaling.{version}.HPAScalingRules",
        Field("stabilizationWindowSeconds", INT32, 3, pointer=True),
        Field("selectPolicy", STRING, 1, pointer=True),
        # A pointer: an empty list is invalid, while an absent one gets the defaults.
        Field("policies", ListOf(policy), 2, pointer=True, list_type=list_type),
    )
    return Struct(
        f"autoscaling.{version}.HorizontalPodAutoscalerBehavior",
        Field("scaleUp", rules, 1, pointer=True),
        Field("scaleDown", rules, 2, pointer=True),
    )


def _policy(kind: str, value: int) -> Object:
    return {"type": kind, "value": value, "periodSeconds": _DEFAULT_PERIOD_SECONDS}


def behavior_with_defaults(sent: Object) -> Object:
    """A behavior that a client sent, completed. The window for scaling down has no default: the controller has one."""
    up: dict[str, Any] = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max"}
    up["policies"] = [_policy("Pods", 4), _policy("Percent", 100)]
    down = {"selectPolicy": "Max", "policies": [_policy("Percent", 100)]}
    defaults = {"scaleUp": up, "scaleDown": down}
    filled = {direction: {**defaults[direction], **sent.get(direction, {})} for direction in DIRECTIONS}
    return {
        direction: {part: rules[part] for part in RULES_FIELDS if part in rules}
        for direction, rules in filled.items()
    }


def behavior_rules(errors: FieldErrors, behavior: Object, field: str) -> None:
    for direction in DIRECTIONS:
        if direction in behavior:
            _rules(errors, behavior[direction], f"{field}.{direction}")


def _rules(errors: FieldErrors, rules: Object, field: str) -> None:
    window, selection = rules.get("stabilizationWindowSeconds", 0), rules.get("selectPolicy", "Max")
    if window < 0:
        text = "must be greater than or equal to zero"
        errors.add(invalid(f"{field}.stabilizationWindowSeconds", window, text))
    if window > MAX_STABILIZATION_WINDOW_SECONDS:
        text = f"must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}"
        errors.add(invalid(f"{field}.stabilizationWindowSeconds", window, text))
    if selection not in SELECT_POLICIES:
        errors.add(not_supported(f"{field}.selectPolicy", selection, SELECT_POLICIES))
    policies = rules.get("policies", [])
    if not policies:
        errors.add(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        _policy_rules(errors, policy, f"{field}.policies[{index}]")


def _policy_rules(errors: FieldErrors, policy: Object, field: str) -> None:
    if policy["type"] not in POLICY_TYPES:
        errors.add(not_supported(f"{field}.type", policy["type"], POLICY_TYPES))
    for part in ("value", "periodSeconds"):
        if policy[part] <= 0:
            errors.add(invalid(f"{field}.{part}", policy[part], "must be greater than zero"))
    if policy["periodSeconds"] > MAX_PERIOD_SECONDS:
        text = f"must be less than or equal to {MAX_PERIOD_SECONDS}"
        errors.add(invalid(f"{field}.periodSeconds", policy["periodSeconds"], text))
