"""The commands as a table; each is loaded when it is used.

Why: to name all commands, or to complete a word, takes a tenth of the time that it takes to load what they need (the
Kubernetes client above all). So one line about each stands here, and a test holds it against what the command says of
itself.
"""

from importlib import import_module
from inspect import getdoc
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from scheduler.errors import SettingsError

PEOPLE: Final = "For people"
OPERATION: Final = "To run it"


class Row(NamedTuple):
    """A command: its name, the module of this room and the function that it is, its panel, and what it does."""

    name: str
    module: str
    function: str
    panel: str
    says: str


# fmt: off
TABLE: Final = (
    Row("list", "gangs", "list_", PEOPLE, "Show the gangs: place in the queue, state, reason, how long they wait, when they start."),
    Row("queue", "gangs", "queue", PEOPLE, "Show who waits, in the order in which gangs are asked about, and why."),
    Row("explain", "gangs", "explain", PEOPLE, "Say why a gang is where it is, what it lacks, and where its members are."),
    Row("nodes", "nodes_command", "nodes", PEOPLE, "Show the nodes: a map of racks, the free shapes, and how broken up the free room is."),
    Row("simulate", "simulate", "simulate", PEOPLE, "Say whether a job would start now, where, and what it lacks otherwise; or decide on a snapshot again."),
    Row("submit", "submit", "submit", PEOPLE, "Check a job's labels and annotations, say what is missing, and apply it."),
    Row("logs", "logs", "logs", PEOPLE, "Show the logs of all members of a gang, merged as they come, each line with its worker's name."),
    Row("suspend", "jobs", "suspend", PEOPLE, "Suspend the Jobs, JobSets and ElasticJobs of a gang: its pods are deleted, and its room is free for others."),
    Row("resume", "jobs", "resume", PEOPLE, "Resume the Jobs, JobSets and ElasticJobs of a gang: its pods are made again, and wait in the queue like all."),
    Row("resize", "jobs", "resize", PEOPLE, "Set how many workers an elastic job has, within its bounds, or let its policy decide again."),
    Row("drain", "drain_command", "drain", PEOPLE, "Move gangs away from a node; none is taken below its quorum, and none whose new seats were not found first."),
    Row("defrag", "defrag", "defrag", PEOPLE, "Show which gangs could move so that the first gang that waits has room; with --yes, move them."),
    Row("ui", "ui", "ui", PEOPLE, "Open the status page in a browser, with the credentials of your kubeconfig."),
    Row("snapshot", "snapshot_command", "snapshot", PEOPLE, "Write all that decides about placement as JSON to standard output: gangwright snapshot > s.json."),
    Row("serve", "daemon", "serve", OPERATION, "Answer kube-scheduler's verbs, plan gangs, and write their seats."),
    Row("agent", "agent_command", "agent", OPERATION, "Run a training as a worker of an ElasticJob; or write the agent as one file for images that have none."),
    Row("elastic", "daemon", "elastic", OPERATION, "Look after ElasticJobs: make and remove their workers, decide their sizes, and let workers meet."),
    Row("ungate", "ungate", "ungate", OPERATION, "Remove the gate gangwright.io/planned from every pod that has it."),
)

BEHIND: Final = frozenset([
    "-A", "--all-namespaces", "--context", "--kubeconfig", "-n", "--namespace", "-o", "--output", "--server", "--settings",
])
"""Options of commands that other programs take before the command, too."""
# fmt: on


class Loaded(TyperCommand):
    """A command as it is; before it runs, log lines get the form that a person reads."""

    def invoke(self, ctx: Any) -> Any:
        from scheduler.settings import Log, LogFormat, LogLevel
        from scheduler.telemetry import log

        log.configure(Log(level=LogLevel.WARNING, format=LogFormat.CONSOLE))
        return super().invoke(ctx)


class Named(TyperCommand):
    """A command of which only the name and one line are known yet."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.name, help=row.says, rich_help_panel=row.panel)
        self._row = row

    def make_context(self, *words: Any, **extra: Any) -> Any:
        """Whoever has the context has the command itself: its options, its help, its function."""
        return load(self._row).make_context(*words, **extra)


def load(row: Row) -> Any:
    """The command itself."""
    function = getattr(import_module(f"scheduler.cli.{row.module}"), row.function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    alone.command(row.name, cls=Loaded, help=_flowing(function), rich_help_panel=row.panel)(function)
    return typer.main.get_command(alone)


def _flowing(function: Any) -> str:
    """What it says of itself, a line a paragraph: the terminal has another width than the source."""
    paragraphs = (getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(own.split()) for own in paragraphs)


class Commands(TyperGroup):
    """All commands of the table, before those that are registered."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        registered, self.commands = self.commands, {}
        for row in TABLE:
            self.add_command(Named(row))
        for name, command in registered.items():
            self.add_command(command, name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words before the command. Raises SettingsError for an option that the command takes."""
        option, _, value = args[0].partition("=") if args else ("", "", "")
        if option in BEHIND and not ctx.resilient_parsing:
            said = value or next(iter(args[1:]), "")
            raise SettingsError(option, said, f"write it behind the command: gangwright COMMAND {option} …")
        return super().parse_args(ctx, args)
