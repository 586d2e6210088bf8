"""`rewound journal`: the journal read on the command line, of a live server or a stopped one.

`commands` has the table and turns failures into sentences. One file per command (`log`, `show`, `history`,
`state`, `diff`, `verify`, `recover`, `export`, `importing`, `stats`); the rest is what several of them share. Every
command opens the folder as a reader, in a process of its own, and holds a view only as long as it reads; `import` and
`recover` write, and only a folder that they make.
"""
