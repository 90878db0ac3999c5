"""`kubectl_complete-gangwright`: what kubectl runs when Tab is pressed behind `kubectl gangwright`.

Lives here: the protocol of completion of kubectl (cobra): the words behind the plugin's name come as arguments, the last
as far as it is typed; a candidate a line is the answer, and the last line is a directive. Never here: which candidates.
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
"""The directive that says: where there is no candidate, no file is one."""
FILES: Final = ":0"
OF_FILES: Final = frozenset({"-f", "--filename", "--kubeconfig", "--settings", "--snapshot", "--install"})
"""Options whose values are files: the shell completes them."""


def main(words: Sequence[str] | None = None) -> None:
    """Write the candidates for the last of these words. By default the words that the program was started with."""
    *before, last = (sys.argv[1:] if words is None else words) or [""]
    if before and before[-1] in OF_FILES:
        print(FILES)
        return
    typed = f"{shlex.join([NAME, *before])} {shlex.quote(last) if last else ''}"
    # typer answers fish in the very form of kubectl: candidate, tab, help.
    os.environ["_GANGWRIGHT_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = typed
    answer = StringIO()
    with redirect_stdout(answer), suppress(SystemExit):
        app(args=[], prog_name=NAME)
    for line in filter(None, answer.getvalue().splitlines()):
        print(line)
    print(NO_FILES)
