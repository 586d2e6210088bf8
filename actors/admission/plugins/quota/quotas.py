"""The quotas of one namespace, parsed, and what of a demand each of them counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.admission.plugins.quota.amounts import NOTHING, ONE, ZERO, Amount, Usage, parse_amounts, select
from actors.admission.plugins.quota.scopes import PodTraits, Requirement, parse_scopes
from actors.admission.plugins.quota.usage import COUNT, OLD_COUNTS, Demand, Measure
from actors.errors import Resource
from actors.messages import Object
from journal.log import Journal

Charges = tuple[Usage, ...]  # one usage for each quota


@dataclass(frozen=True, slots=True)
class Quota:
    name: str
    hard: Usage
    texts: Mapping[str, str]  # `hard` as it is stored
    scopes: tuple[Requirement, ...]

    def selects(self, pod: PodTraits | None) -> bool:
        if pod is None:
            return not self.scopes
        return all(one.selects(pod) for one in self.scopes)


def parse_quota(stored: Object) -> Quota:
    spec = stored["spec"]
    texts = spec.get("hard") or {}
    return Quota(stored["metadata"]["name"], parse_amounts(texts), texts, parse_scopes(spec))


class QuotaSet:
    """All quotas of a namespace in the order of their names. It never changes."""

    def __init__(
        self, namespace: str, quotas: Mapping[str, Quota], measures: tuple[Measure, ...], journal: Journal
    ) -> None:
        self.namespace = namespace
        self._journal = journal
        self.quotas = tuple(quotas[name] for name in sorted(quotas))
        names = {name for quota in self.quotas for name in quota.hard}
        self.measured: dict[int, Measure] = {}
        covered = set[str]()
        for measure in measures:
            if own := {name for name in names if measure.covers(name)}:
                self.measured[journal.type_id(str(measure.resource))] = measure
                covered |= own
        self.counted = self._counted(names - covered, journal)
        counted = {name for charges in self.counted.values() for usage in charges for name in usage}
        # The names whose usage is known, by quota. No kind has the others.
        self.known = tuple(
            frozenset(name for name in quota.hard if name in covered or name in counted)
            for quota in self.quotas
        )

    def _counted(self, names: set[str], journal: Journal) -> dict[int, Charges]:
        """What each object of a kind is charged of which only the number counts, by type id."""
        usages: dict[int, dict[str, Amount]] = {}
        for name in names:
            counted = name if name in OLD_COUNTS else name.removeprefix(COUNT)
            type_id = journal.type_id(counted) if counted != name or name in OLD_COUNTS else 0
            if type_id and counted.partition(".")[0] != "events":
                usages.setdefault(type_id, {})[name] = ONE
        return {
            type_id: tuple(_charge_of_one(usage, quota) for quota in self.quotas)
            for type_id, usage in usages.items()
        }

    def counts(self, resource: Resource) -> bool:
        """Whether a quota counts objects of this kind."""
        type_id = self._journal.type_id(str(resource))
        return type_id in self.counted or type_id in self.measured

    def charges(self, demand: Demand) -> Charges:
        return tuple(
            select(demand.usage, known) if quota.selects(demand.pod) else NOTHING
            for quota, known in zip(self.quotas, self.known, strict=True)
        )


def _charge_of_one(usage: Usage, quota: Quota) -> Usage:
    """Quotas with scopes count pods only: in these, the number of other objects stays 0."""
    selected = select(usage, quota.hard)
    return dict.fromkeys(selected, ZERO) if quota.scopes else selected
