"""What programs a container finds, by its image."""

import subprocess
from pathlib import Path

from bench.plane.kubelet import OURS

ROOT = Path(__file__).parents[4]


def test_our_image_has_the_code_of_this_checkout() -> None:
    """In whichever folder they run, its programs are those under test, though another checkout may own the virtual
    environment.
    """
    show = ["python", "-c", "import scheduler; print(scheduler.__file__)"]
    done = subprocess.run(show, cwd="/", env=OURS.environment(), capture_output=True, text=True, check=True)

    assert Path(done.stdout.strip()) == ROOT / "scheduler" / "__init__.py"
