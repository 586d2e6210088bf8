"""The past of objects in the API: `?at=` on gets and lists, and a group with history, blame, rollback and undelete."""
