"""Walk once and print a digest of everything the engine did: `python -m tests.engine.support.transcript SEED STEPS`.

Run in processes with different hash seeds it shows whether an order of a set or a dict leaks into decisions.
"""

import hashlib
import sys

from tests.engine.support.walks import told_by_a_walk


def main() -> None:
    seed, steps = int(sys.argv[1]), int(sys.argv[2])
    digest = hashlib.sha256()
    for effect in told_by_a_walk(seed, steps):
        digest.update(repr(effect).encode())
    sys.stdout.write(digest.hexdigest())


if __name__ == "__main__":
    main()
