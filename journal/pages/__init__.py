"""LMDB's file read page by page, without LMDB: what `verify` and `recover` use on a file that may be damaged.

LMDB trusts every page: a damaged one kills the process. These modules check each number before they use it, and
report what is wrong instead. `layout` has the bytes, `tree` walks one B+tree, `audit` checks a whole file.
"""
