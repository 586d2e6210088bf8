"""`rewound open`: the page about the journal in a browser, signed in (docs/page.md, decision 0065).

`command` parses the flags and runs it, `view` finds the object or moment to show, `listener` forwards the browser's
requests to the server with the user's credentials, `gate` decides which of them, and `browser` starts a browser.
"""
