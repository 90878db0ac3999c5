"""What the demo shows before the rest of it is installed and built."""

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from bench.demo import preview

ROOT = Path(__file__).parents[3]

IMPORTED = """
import sys
import bench.demo.preview
print(*sorted({name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""


def test_every_gang_of_the_picture_runs_or_has_a_time() -> None:
    """Six of the eight gangs run, and each of the two that wait has a forecast."""
    console = Console(file=io.StringIO(), width=100)

    preview.show(console)

    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(re.findall(r"× \d +runs", text)) == 6
    assert len(re.findall(r"× \d +starts in about \d+ min", text)) == 2


def test_the_preview_needs_only_what_is_installed_first() -> None:
    """It imports no third-party package but those that the Makefile installs before all others."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ENOUGH := (\S+)", makefile, re.MULTILINE)
    first = {name.replace("-", "_") for name in line.split("|")} | {"bench", "scheduler"}

    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True
    )

    others = {name for name in done.stdout.split() if not name.startswith(("_", "cython"))}
    assert "numpy" in others
    assert others <= first
