"""`rewound journal recover`: a new folder from what is provably sound in a damaged one.

`survey` reads the damaged file without LMDB, also records outside of its trees; `decide` chooses the newest version of
each object and the events to keep; `recover` writes them into a new folder. A record is provable when its
checksum, which covers its key, is right, and nothing that can be read contradicts it.
"""
