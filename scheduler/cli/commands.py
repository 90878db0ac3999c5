"""The commands as a table. Each command is loaded when it is used.

Why: listing all commands, or completing a word, takes a tenth of the time that it takes to load their imports (mostly
the Kubernetes client). So the summary of each command is here, and a test compares it with the command's docstring.
"""

from importlib import import_module
from inspect import getdoc
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from scheduler.errors import SettingsError

PEOPLE: Final = "User commands"
OPERATION: Final = "Operator commands"


class Row(NamedTuple):
    """A command: its name, its module in this package, its function, its panel, a summary of at most 60 characters, and
    examples.
    """

    name: str
    module: str
    function: str
    panel: str
    says: str
    examples: tuple[str, ...] = ()


# fmt: off
TABLE: Final = (
    Row("list", "gangs", "list_", PEOPLE, "List gangs: place, state, GPUs, wait and expected start.", (
        "gangwright list -A",
        "gangwright list --pending -o wide",
        "gangwright list -l team=vision --sort gpus",
        "gangwright list -w",
    )),
    Row("queue", "gangs", "queue", PEOPLE, "List pending gangs in queue order, each with its reason.", (
        "gangwright queue",
        "gangwright queue -o json",
    )),
    Row("explain", "gangs", "explain", PEOPLE, "Explain why a gang waits, and what would let it start.", (
        "gangwright explain train",
        "gangwright explain team-a/train -o yaml",
    )),
    Row("nodes", "nodes_command", "nodes", PEOPLE, "Show nodes by rack, free capacity and fragmentation.", (
        "gangwright nodes",
        "gangwright nodes -o wide",
    )),
    Row("shares", "shares_command", "shares", PEOPLE, "Show usage, guarantee and ceiling of each namespace.", (
        "gangwright shares",
        "gangwright shares -o wide",
    )),
    Row("history", "history_command", "history", PEOPLE, "List finished gangs: wait, runtime and device hours.", (
        "gangwright history",
        "gangwright history -A --limit 100",
    )),
    Row("simulate", "simulate", "simulate", PEOPLE, "Check whether a job would start now, without changes.", (
        "gangwright simulate -f job.yaml",
        "gangwright simulate -f - -n team-a -o json < job.yaml",
        "gangwright simulate --snapshot s.json --trace",
    )),
    Row("submit", "submit", "submit", PEOPLE, "Check a job's manifests, then apply them.", (
        "gangwright submit -f job.yaml --dry-run",
        "gangwright submit -f job.yaml --wait --timeout 1h",
    )),
    Row("logs", "logs", "logs", PEOPLE, "Show the logs of all members of a gang as one stream.", (
        "gangwright logs train -f",
        "gangwright logs team-a/train --tail 10 --since 5m",
    )),
    Row("suspend", "jobs", "suspend", PEOPLE, "Suspend the Jobs, JobSets and ElasticJobs of a gang.", (
        "gangwright suspend train",
        "gangwright suspend team-a/train",
    )),
    Row("resume", "jobs", "resume", PEOPLE, "Resume the Jobs, JobSets and ElasticJobs of a gang.", (
        "gangwright resume train",
        "gangwright resume team-a/train",
    )),
    Row("resize", "jobs", "resize", PEOPLE, "Set the number of workers of an ElasticJob.", (
        "gangwright resize resnet 4",
        "gangwright resize team-a/resnet auto",
    )),
    Row("drain", "drain_command", "drain", PEOPLE, "Evict gangs from a cordoned node onto reserved nodes.", (
        "kubectl cordon node-1",
        "gangwright drain node-1 --wait --timeout 30m",
    )),
    Row("defrag", "defrag", "defrag", PEOPLE, "Plan moves that let the first waiting gang start.", (
        "gangwright defrag",
        "gangwright defrag --yes",
    )),
    Row("ui", "ui", "ui", PEOPLE, "Open the status page in a browser.", (
        "gangwright ui",
        "gangwright ui --no-browser --context prod",
    )),
    Row("snapshot", "snapshot_command", "snapshot", PEOPLE, "Dump the scheduling state as JSON, for simulate.", (
        "gangwright snapshot > s.json",
        "gangwright snapshot --redact > s.json",
    )),
    Row("serve", "daemon", "serve", OPERATION, "Run the extender: plan gangs and answer kube-scheduler.", (
        "gangwright serve --settings settings.yaml",
        "gangwright serve --set probes.port=0",
    )),
    Row("agent", "agent_command", "agent", OPERATION, "Run a training command as a worker of an ElasticJob.", (
        "gangwright agent -- python train.py",
        "gangwright agent --install agent.pyz",
    )),
    Row("elastic", "daemon", "elastic", OPERATION, "Run the master of ElasticJobs.", (
        "gangwright elastic --settings settings.yaml",
        "gangwright elastic --set elastic.leaseName=mine",
    )),
    Row("ungate", "ungate", "ungate", OPERATION, "Remove Gangwright's gate from waiting pods.", (
        "gangwright ungate --all --dry-run",
        "gangwright ungate -n team-a",
    )),
)

BEHIND: Final = frozenset([
    "-A", "--all-namespaces", "--context", "--kubeconfig", "-n", "--namespace", "-o", "--offline", "--output", "--server",
    "--settings",
])
"""Options of commands that other programs also accept before the command."""
# fmt: on


class Named(TyperCommand):
    """A command of which only the name and the summary are loaded."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.name, help=row.says, rich_help_panel=row.panel)
        self._row = row

    def make_context(self, *words: Any, **extra: Any) -> Any:
        """Load the command itself: its options, its help, its function."""
        return load(self._row).make_context(*words, **extra)


def load(row: Row) -> Any:
    """The command itself."""
    function = getattr(import_module(f"scheduler.cli.{row.module}"), row.function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    said = [_flowing(function), *(["\n  ".join(("Examples:", *row.examples))] if row.examples else [])]
    alone.command(row.name, help="\n\n".join(said), rich_help_panel=row.panel)(function)
    return typer.main.get_command(alone)


def _flowing(function: Any) -> str:
    """The docstring with one line per paragraph, because the width of the terminal differs from the source."""
    paragraphs = (getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(own.split()) for own in paragraphs)


class Commands(TyperGroup):
    """All commands of the table, before the registered ones."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        registered, self.commands = self.commands, {}
        for row in TABLE:
            self.add_command(Named(row))
        for name, command in registered.items():
            self.add_command(command, name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the command. Raises SettingsError for an option of the command."""
        option, _, value = args[0].partition("=") if args else ("", "", "")
        if option in BEHIND and not ctx.resilient_parsing:
            said = value or next(iter(args[1:]), "")
            raise SettingsError(
                option, said, f"must follow the command. Write: gangwright COMMAND {option} …"
            )
        return super().parse_args(ctx, args)
