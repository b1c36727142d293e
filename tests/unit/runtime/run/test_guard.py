"""What a program does around its training."""

import subprocess
import sys


def test_a_program_that_ends_well_reports_nothing() -> None:
    """Libraries with C++ parts complain at the end about objects that were not collected."""
    program = "import torchvision\nfrom leaven import runtime\nruntime.guard(lambda: None)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
