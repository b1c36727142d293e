"""Every benchmark runs, in its smallest form, on data that is drawn."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(file.name for file in BENCH.glob("*.py")))
def test_a_benchmark_runs(script: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / script), "--smoke", "--work", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "skipped" not in done.stdout


def test_make_bench_fails_if_a_script_fails(tmp_path: Path) -> None:
    """The others still run."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "a.py").write_text("raise SystemExit(1)\n")
    (tmp_path / "bench" / "b.py").write_text("print('b ran')\n")
    makefile = BENCH.parent / "Makefile"
    venv = Path(sys.executable).parents[1]
    done = subprocess.run(
        ["make", "-f", str(makefile), "bench", f"VENV={venv}", "IS_READY=yes"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "b ran" in done.stdout
    assert "failed: bench/a.py" in done.stderr
