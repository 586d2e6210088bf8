"""Label and field selectors of lists, watches and deletecollection requests.

The gateway parses the query parameters here; actors and reads filter with `matcher`. Selectors are frozen and print
in a canonical form, so that watches with equivalent selectors share one group.
"""

from rewound.actors.selectors.fields import FieldRequirement, FieldSelector
from rewound.actors.selectors.index import criteria
from rewound.actors.selectors.labels import LabelRequirement, LabelSelector
from rewound.actors.selectors.matcher import matcher, search

__all__ = [
    "FieldRequirement",
    "FieldSelector",
    "LabelRequirement",
    "LabelSelector",
    "criteria",
    "matcher",
    "search",
]
