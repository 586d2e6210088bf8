"""Records any server of this API into a journal: lists and watches of all kinds (docs/record.md)."""
