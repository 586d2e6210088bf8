"""Serves group versions of other servers, to which APIServices lead (docs/aggregation.md)."""
