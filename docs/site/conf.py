"""The site of the documentation: `make docs` builds it into `build/site`.

The sources are the Markdown files of the repository where they are, so that their links work there and on the site.
"""

from __future__ import annotations

from rewound.release import RELEASE

project = "Rewound"
copyright = "the authors of Rewound"
release = RELEASE
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/*/*.md",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "tests/actors/*/STATEMENTS.md",
]

extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "console"

html_theme = "furo"
html_title = f"Rewound {release}"
html_show_sphinx = False
