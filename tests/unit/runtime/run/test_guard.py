"""What a program does around its training."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leaven.formats.run_folder import OUTCOME, REPORT


def test_a_program_that_ends_well_reports_nothing() -> None:
    """Libraries with C++ parts complain at the end about objects that were not collected."""
    program = "import torchvision\nfrom leaven import runtime\nruntime.guard(lambda: None)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
class TestFullDisks:
    """Who started the program reads from files how it ended; where these can't be written, nothing else is lost."""

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        full = {**os.environ, OUTCOME: "/dev/full", REPORT: "/dev/full"}
        text = f"from leaven import runtime\ndef main():\n    {program}\nruntime.guard(main)\n"
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=full)

    def test_the_report_of_a_failure_is_printed(self) -> None:
        done = self.run("raise runtime.Failure('the disk is full', 'free some space')")
        assert (done.returncode, done.stderr) == (1, "error: the disk is full\nhelp: free some space\n")

    def test_a_success_remains_one(self) -> None:
        done = self.run("pass")
        assert (done.returncode, done.stderr) == (0, "")
