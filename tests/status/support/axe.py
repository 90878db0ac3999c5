"""axe-core, which judges a page's accessibility: one file of a package of npm, in the user's cache.

    python -m tests.status.support.axe      fetch it, where it is missing; needs npm

Lives here: which version, and how it gets into the cache. Never here: a test.
"""

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""Of the package, as npm's registry and lock files write it."""

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangwright" / "axe-core"
SCRIPT = FOLDER / f"axe-{VERSION}.js"
MISSING = "no axe-core: run python -m tests.status.support.axe"

VIOLATIONS = """
axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.map(
  (one) => [one.id, one.help, one.nodes.map((node) => [node.html.slice(0, 200), node.failureSummary])]))
"""


def fetch() -> None:
    """Write the script into the cache. Raises CalledProcessError, and ValueError for another package than expected."""
    with tempfile.TemporaryDirectory() as folder:
        command = ("npm", "pack", f"axe-core@{VERSION}", "--silent", "--ignore-scripts")
        name = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[
            -1
        ]
        package = Path(folder, name)
        found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if found != SHA512:
            raise ValueError(f"axe-core {VERSION} has the digest {found}, not {SHA512}")
        with tarfile.open(package) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            FOLDER.mkdir(parents=True, exist_ok=True)
            SCRIPT.write_bytes(script.read())


if __name__ == "__main__":
    if not SCRIPT.exists():
        try:
            fetch()
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            sys.exit(f"axe-core was not fetched: {error}")
