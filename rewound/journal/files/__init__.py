"""The files of a journal, created, locked and checked before LMDB opens them."""
