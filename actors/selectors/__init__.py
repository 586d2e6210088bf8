"""Label and field selectors: what a list, a watch or a deletecollection narrows its collection by.

The gateway parses the query parameters here, actors and reads filter with `matcher`. Selectors are frozen
and print in a canonical form, so that watchers who ask for the same thing in other words share one group.
"""

from actors.selectors.fields import FieldRequirement, FieldSelector
from actors.selectors.labels import LabelRequirement, LabelSelector
from actors.selectors.matcher import matcher

__all__ = ["FieldRequirement", "FieldSelector", "LabelRequirement", "LabelSelector", "matcher"]
