"""The commands that read a journal: `rewound log`, `history`, `at`, `diff`, `blame`, ... and `rewound journal` with
their names.

`commands` has the table and turns failures into sentences. One file per command; `printing` is what several of them
print, and `opening` opens what they read: a server, a data folder or a file, all three as one `recording.query.source`.
A folder is opened as a reader, in a process of its own, and a view is held only as long as it is read; `import` and
`recover` write, and only a folder that they make.
"""
