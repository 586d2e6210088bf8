"""Match conditions of webhooks: false excludes, errors follow failurePolicy, and all are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.policies.webhook_conditions import ConditionMatcher
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.admission.timings import ConditionTimings
from rewound.actors.admission.webhooks.candidates import Match
from rewound.actors.admission.webhooks.hook import hooks_of
from rewound.actors.conversion.converter import Converter, NoClients
from rewound.actors.errors import Forbidden
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.admission.admitted import CONTEXT
from tests.actors.object_store import Store, open_store

RELEASE = choose_release("1.36")
MAPS = next(one for one in built_in(KUBERNETES, RELEASE).definitions if one.plural == "configmaps")
MISSING = "expression 'object.data.missing == \"\"' resulted in error: no such key: missing"
LABELS = ("a.example.com", "webhook", "validating", CREATE)
EXCLUDED = ("a.example.com", "webhook", "validate", CREATE)


class Checked:
    def __init__(self, store: Store) -> None:
        self.timings = ConditionTimings()
        authorizer = AlwaysAllow()
        rbac = Rbac(stored_policy(KUBERNETES, store.journal, store.feed))
        context = PluginContext(
            KUBERNETES, store.journal, store.feed, authorizer, rbac, features=RELEASE.features
        )
        converter = Converter(KUBERNETES, NoClients())
        self._matcher = ConditionMatcher(context, "validating", self.timings, converter)

    async def are_met(self, *expressions: str, policy: str = "Fail") -> bool:
        conditions = [{"name": str(number), "expression": one} for number, one in enumerate(expressions)]
        hook = {
            "name": "a.example.com",
            "clientConfig": {"url": "https://127.0.0.1/"},
            "failurePolicy": policy,
            "matchConditions": conditions,
        }
        [made] = hooks_of({"metadata": {"name": "c"}, "webhooks": [hook]})
        new = {"metadata": {"name": "a"}, "data": {"x": "y"}}
        request = AdmissionRequest(CREATE, MAPS, "default", "a", "", new, None, "user", False, CONTEXT)
        return await self._matcher.are_met(Match(0, made, MAPS), request)


@pytest.fixture
async def checked() -> AsyncIterator[Checked]:
    async with open_store() as store:
        yield Checked(store)


async def test_all_must_be_true(checked: Checked) -> None:
    true, false = "request.name == 'a'", "object.data.x == 'z'"
    assert await checked.are_met(true, "namespaceObject == null")
    assert not checked.timings.durations()
    assert not await checked.are_met(true, false)
    assert checked.timings.exclusions() == {EXCLUDED: 1}
    assert list(checked.timings.durations()) == [LABELS]


async def test_false_excludes_whatever_fails(checked: Checked) -> None:
    assert not await checked.are_met("object.data.missing == ''", "false")
    assert checked.timings.errors() == {LABELS: 1}


async def test_errors_follow_failure_policy(checked: Checked) -> None:
    missing = 'object.data.missing == ""'
    assert not await checked.are_met("true", missing, policy="Ignore")
    with pytest.raises(Forbidden) as refused:
        await checked.are_met("true", missing)
    assert refused.value.message == f'configmaps "a" is forbidden: {MISSING}'
    with pytest.raises(Forbidden) as refused:
        await checked.are_met(missing, missing, "object.none")
    assert refused.value.message.endswith(
        f"[{MISSING}, compilation error: must evaluate to bool but got dyn]"
    )
    assert checked.timings.errors() == {LABELS: 5} and checked.timings.exclusions() == {EXCLUDED: 1}


async def test_conditions_have_one_budget(checked: Checked) -> None:
    large = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    text = f"{large}.all(a, {large}.all(b, {large}.all(c, {large}.all(d, {large}.all(e, a > 0)))))"
    with pytest.raises(Forbidden, match="running out of cost budget"):
        await checked.are_met("false", *([text] * 20))
    assert not checked.timings.errors()
