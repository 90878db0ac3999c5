"""The commands that pages show, and what is wrong with them by the command line's own parser.

Nothing is run: a command is parsed, with stand-ins for placeholders such as NODE or `[NAMESPACE/]GANG`.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer

from scheduler.cli.command_line import app
from tests.docs.pages import Page, Piece

SHELL: Final = frozenset({"sh", "bash", "shell", "console"})
UNNAMED: Final = frozenset({"", "text"})
"""What a block without a language holds is judged by its lines: transcripts, drawings, usages."""
PROMPT: Final = "$ "
_ENDS: Final = frozenset(";|&<>")
_PLACEHOLDER: Final = re.compile(r"[A-Z][A-Z0-9_-]*")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*")
_CALL: Final = re.compile(r"(?:kubectl |gangwright [a-z-])")
_LEFT_OUT: Final = frozenset({"…", "..."})

PROGRAM: Final = typer.main.get_command(app)


class ShellError(ValueError):
    """A line that no shell can take apart."""


def shell_lines(page: Page) -> Iterator[Piece]:
    """Every line of a code block that a reader types; in a block with prompts only what follows one."""
    for block in page.blocks:
        if block.kind not in SHELL | UNNAMED:
            continue
        has_prompts = any(line.startswith(PROMPT) for line in block.text.splitlines())
        number, joined = block.line, ""
        for offset, line in enumerate(block.text.splitlines()):
            if not joined:
                number = block.line + offset
                if has_prompts and not line.startswith(PROMPT):
                    continue
                if block.kind in UNNAMED and not _CALL.match(line.removeprefix(PROMPT)):
                    continue
            joined += line.removeprefix(PROMPT).strip()
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            yield Piece(number, "shell", joined)
            joined = ""


def calls(line: str) -> Iterator[list[str]]:
    """The words of each call of `gangwright` in a line, without the program's name. Raises ShellError."""
    for words in _commands(line):
        while words and _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        if words[:1] == ["gangwright"]:
            yield words[1:]
        elif words[:2] == ["kubectl", "gangwright"]:
            yield words[2:]


def _commands(line: str) -> Iterator[list[str]]:
    """The words of each command of a line, up to a redirection."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="".join(_ENDS))
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError as error:
        raise ShellError(f"{line}: {error}") from None
    own: list[str] = []
    redirected = False
    for word in words:
        if not _ENDS.issuperset(word):
            own += [] if redirected else [word]
        elif "<" in word or ">" in word:
            redirected = True
        else:
            yield own
            own, redirected = [], False
    yield own


def complaint(words: Sequence[str]) -> str | None:
    """What is wrong with these words after `gangwright`; None: nothing."""
    words = [own for own in map(_stand_in, words) if own]
    is_partial = bool(_LEFT_OUT & set(words))
    words = [own for own in words if own not in _LEFT_OUT]
    if not words:
        return None
    if words[0].startswith("-"):
        known = {spelled for own in PROGRAM.params for spelled in own.opts} | {"--help", "-h"}
        return None if words[0] in known else f"no option {words[0]} before the command"
    command = PROGRAM.commands.get(words[0])
    if command is None:
        return f"no command {words[0]!r}"
    try:
        command.make_context(words[0], [own for own in words[1:] if own not in {"--help", "-h"}])
    except typer.Exit:
        return None
    except Exception as error:
        if is_partial and type(error).__name__ == "MissingParameter":
            return None
        return said(error)
    return None


def said(error: Any) -> str:
    """What the parser says. Raises the error again where it is none of the parser."""
    if not hasattr(error, "format_message"):
        raise error
    return str(error.format_message())


def _stand_in(word: str) -> str:
    """A value in the place of a placeholder; what is optional counts as given."""
    if word.startswith("[NAMESPACE/]"):
        return word
    if word == "[OPTIONS]":
        return ""
    word = word.strip("[]") if word.startswith("[") or word.endswith("]") else word
    return "1" if _PLACEHOLDER.fullmatch(word) else word


def complaints(page: Page) -> Iterator[str]:
    """`page:line: command: what is wrong` of every call of `gangwright` on a page."""
    for piece in shell_lines(page):
        if re.search(r"\b(gangwright|kubectl) ", piece.text):
            yield from _complaints(page, piece)
    for piece in page.words:
        if piece.text.startswith(("gangwright ", "kubectl gangwright ")):
            yield from _complaints(page, piece)


def _complaints(page: Page, piece: Piece) -> Iterator[str]:
    try:
        for words in calls(piece.text):
            is_a_name = piece.kind == "code" and len(words) == 1
            wrong = complaint([*words, "…"] if is_a_name else words)
            if wrong:
                yield f"{page}:{piece.line}: {piece.text}: {wrong}"
    except ShellError as torn:
        yield f"{page}:{piece.line}: {torn}"
