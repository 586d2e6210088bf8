"""The files of a journal: creating and locking them, and checking them before LMDB opens them."""
