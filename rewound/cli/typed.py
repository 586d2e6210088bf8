"""How the user can type the command `rewound`, for banners and hints."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def typed_name() -> str:
    """The command `rewound` as it can be typed here: its name if PATH finds it, or else the path of this one."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py" and program.parent.name == "rewound":
        return f"{shlex.quote(sys.executable)} -m rewound"
    found = shutil.which("rewound")
    if program.name != "rewound" or (found is not None and os.path.samefile(found, program)):
        return "rewound"
    return shlex.quote(str(program))
