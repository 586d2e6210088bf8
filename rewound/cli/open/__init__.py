"""`rewound open`: the page about the journal in a browser, signed in (docs/page.md, decision 0065).

`command` has the flags and runs it, `view` finds what the page is to show, `listener` forwards the browser's requests
to the server with the credentials of the user, `gate` decides which requests it forwards, and `browser` starts one.
"""
