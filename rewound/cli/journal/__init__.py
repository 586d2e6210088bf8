"""The commands that read a journal: `rewound log`, `history`, `at`, `diff`, `blame`, ... and `rewound journal` with
their names.

`commands` has the table of commands and reports their errors. Each command is a file; `printing` formats output, and
`opening` opens what the flags name, a server, a data folder or a file, as one `recording.query.source`.
A folder is opened for reading only, and read transactions are short; `import` and `recover` write, and only to a folder
that they create.
"""
