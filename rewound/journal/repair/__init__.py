"""What helps after damage: `verify` finds it, `recover` makes a new folder of what is provably sound.

Commands use it, a server never does (an import contract says so). `damaged_file` reads what a damaged file still has,
`plan` decides what of it a new folder gets, `recover` writes that. The checks of every opening are elsewhere: of the
file in `journal.files.opening` and `journal.files.structure`, of the newest records in `journal.tail`.
"""
