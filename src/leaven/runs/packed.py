"""Whether the program of a job and the Leaven that runs it belong together: that which packed it, and this one."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from leaven.files.atomic_files import write_text
from leaven.formats.installed_versions import leaven_version
from leaven.formats.run_folder import OUTCOME, PACKED_BY


def refuse_other_version() -> None:
    """End this process if it is to run a program that another version of Leaven has packed."""
    packed_by, here = os.environ.pop(PACKED_BY, ""), leaven_version()
    if packed_by in ("", here):
        return
    reason = f"it was packed by Leaven {packed_by}, and {sys.executable} has Leaven {here}"
    if file := os.environ.get(OUTCOME):
        with suppress(OSError):  # on a full disk, the reason is still printed
            write_text(Path(file), json.dumps({"outcome": "refused", "reason": reason}))
    sys.exit(f"error: {reason}")
