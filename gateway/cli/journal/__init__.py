"""`rewound journal`: the journal read on the command line, of a live server or a stopped one.

`commands` has the table and turns failures into sentences. One file per command (`log`, `show`, `history`,
`state`, `diff`, `verify`, `export`, `importing`, `stats`); the rest is what several of them share. Every command
opens the folder as a reader, in a process of its own, and holds a view only as long as it reads; `import` is the
one writer, and only of a folder that it makes.
"""
