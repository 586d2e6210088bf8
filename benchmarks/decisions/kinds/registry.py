"""docs/decisions/0014-registry.md: what one more kind costs, and what it would cost to derive everything again."""

from __future__ import annotations

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from benchmarks.decisions.samples import CATALOG
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition, DiscoveryNames
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import INT32, STRING, Field, Struct
from rewound.actors.kinds.validation import name_is_subdomain
from rewound.actors.names import CLUSTER
from rewound.gateway.describe.openapi.documents import Documents
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.sections import sections

GROUP = "stable.example.io"
VERBS = frozenset(("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))


def new_kind() -> Definition:
    spec = Struct(f"{GROUP}.v1.CronTabSpec", Field("schedule", STRING, 1), Field("replicas", INT32, 2))
    return Definition(
        group=GROUP,
        version="v1",
        kind="CronTab",
        plural="crontabs",
        names=DiscoveryNames(short_names=("ct",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=Struct(f"{GROUP}.v1.CronTab", METADATA, Field("spec", spec, 2)),
    )


def main(effort: Effort) -> None:
    kind = new_kind()
    print(
        f"{len(CATALOG.definitions)} definitions in {sum(map(len, CATALOG.groups().values()))} group versions"
    )
    compare(
        "the next catalog",
        {
            "derived from the one before": lambda: CATALOG.adding([kind]),
            "declared anew": lambda: built_in(CLUSTER),
        },
        effort,
    )
    catalog = CATALOG.adding([kind])
    cut = {one.name: one for one in sections(catalog, VERBS, Naming(CLUSTER, catalog.exists))}
    new = cut[f"apis/{GROUP}/v1"]

    def documents(*names: str) -> int:
        made = Documents(catalog, CLUSTER, "v1.25")
        return sum(len(b"".join(made.version_3(cut[name]))) for name in names)

    compare(
        "its OpenAPI 3 document",
        {"that of its group version": lambda: documents(new.name), "those of all": lambda: documents(*cut)},
        effort,
    )


if __name__ == "__main__":
    main(effort_of_command_line())
