"""`kubectl_complete-gangwright`: kubectl runs it when you press Tab after `kubectl gangwright`.

Lives here: the completion protocol of kubectl (cobra). The arguments are the words after the plugin's name, the last
one maybe incomplete. The answer has one candidate per line, and a directive as its last line. Never here: the
candidates.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

from scheduler.cli.command_line import app

NAME: Final = "gangwright"
NO_FILES: Final = ":4"
"""The directive to complete no file names."""
FILES: Final = ":0"
OF_FILES: Final = frozenset({"-f", "--filename", "--kubeconfig", "--settings", "--snapshot", "--install"})
"""Options whose values are files, which the shell completes."""


def main(words: Sequence[str] | None = None) -> None:
    """Write the candidates for the last of these words. Defaults to the program's arguments."""
    *before, last = (sys.argv[1:] if words is None else words) or [""]
    if before and before[-1] in OF_FILES:
        print(FILES)
        return
    typed = f"{shlex.join([NAME, *before])} {shlex.quote(last) if last else ''}"
    # typer's answer to fish has the same form as kubectl's: candidate, tab, help.
    os.environ["_GANGWRIGHT_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = typed
    answer = StringIO()
    with redirect_stdout(answer), suppress(SystemExit):
        app(args=[], prog_name=NAME)
    for line in filter(None, answer.getvalue().splitlines()):
        print(line)
    print(NO_FILES)
