"""Repair after damage: `verify` finds it, `recover` creates a new folder from what is provably intact.

Only commands use this package, never a server (an import contract enforces it). `damaged_file` reads what can still
be read, `plan` decides what a new folder gets, and `recover` writes it. The checks at every opening are elsewhere:
those of the file in `journal.files.opening` and `journal.files.structure`, those of the newest records in
`journal.tail`.
"""
