"""The command line: what it says of itself, and of wrong words."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import scheduler
from scheduler.cli.command_line import app
from scheduler.cli.commands import TABLE, load
from tests.cli.support.speaking import say
from tests.kube.support.kubeconfig import kubeconfig

ROOT = Path(__file__).parents[2]


COMMANDS = (
    "list", "queue", "explain", "nodes", "shares", "history", "simulate", "submit", "logs", "suspend", "resume", "drain", "defrag", "snapshot",
    "serve", "ungate", "version",
)  # fmt: skip


def gangwright(*words: str) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it."""
    command = [sys.executable, "-m", "scheduler", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_is_the_packages(word):
    """It is printed, and nothing else."""
    assert CliRunner().invoke(app, [word]).stdout.strip() == scheduler.__version__


def test_help_names_every_command():
    """Without words the commands are listed."""
    shown = CliRunner().invoke(app, ["--help"]).stdout

    assert all(command in shown for command in COMMANDS)
    assert "1 negative result" in " ".join(shown.split())


@pytest.mark.parametrize("words", [["-h"], ["explain", "-h"]])
def test_help_may_be_asked_for_shortly(words):
    """`-h` is `--help`, as it is to kubectl."""
    done = CliRunner().invoke(app, words)

    assert (done.exit_code, "Usage" in done.stdout) == (0, True)


def test_completion_knows_the_commands():
    """What a shell asks for when Tab is pressed is answered with the commands that begin so."""
    environ = {"_GANGWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "gangwright ex", "COMP_CWORD": "1"}

    done = CliRunner().invoke(app, [], env=environ, prog_name="gangwright")

    assert done.stdout.split() == ["explain"]


def test_help_is_folded_for_the_terminal_alone():
    """A paragraph is not broken where the source is."""
    shown = CliRunner().invoke(app, ["suspend", "--help"], env={"COLUMNS": "400"}).stdout

    assert "A Job that Gangwright had suspended for another gang now stays suspended." in shown


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_command_explains_itself(command: str):
    """`--help` says what a command does."""
    done = CliRunner().invoke(app, [command, "--help"])

    assert (done.exit_code, "Usage" in done.stdout) == (0, True)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_line_about_a_command_is_its_own_first_word(row):
    """The list of commands says of each what its own help begins with."""
    function = getattr(import_module(f"scheduler.cli.{row.module}"), row.function)

    assert inspect.getdoc(function).split("\n\n")[0] == row.says
    assert len(row.says) <= 60


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_command_shows_how_it_is_used(row):
    """With examples that it takes, before its options."""
    shown = CliRunner().invoke(app, [row.name, "--help"], env={"COLUMNS": "100"}).stdout
    own = [shlex.split(example)[2:] for example in row.examples if example.startswith("gangwright ")]

    assert own
    assert all(f"  {example}" in shown.partition("Options")[0] for example in row.examples)
    for words in own:
        plain = words[: words.index(">")] if ">" in words else words
        load(row).make_context(row.name, plain[: plain.index("<")] if "<" in plain else plain)


def test_how_the_cluster_is_reached_comes_last_in_help():
    """In a panel of its own."""
    shown = CliRunner().invoke(app, ["list", "--help"]).stdout

    assert re.findall(r"^╭─ (\w+)", shown, re.MULTILINE) == ["Options", "Cluster"]
    assert "--kubeconfig" in shown.partition("─ Cluster ─")[2]


HEAVY = {"kubernetes", "aiohttp", "numpy", "structlog"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "environ", "shown"),
    [
        (["--help"], {}, "explain"),
        (["version"], {}, scheduler.__version__),
        ([], {"_GANGWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "gangwright sim", "COMP_CWORD": "1"}, "simulate"),
        (["list", "--help"], {}, "--server"),
    ],
    ids=["help", "version", "completion", "help of a command"],
)  # fmt: skip
def test_words_are_answered_without_loading_what_they_do_not_need(words, environ, shown):
    """Help, completion and the version come at once: no client, no numbers, no logging is loaded for them."""
    told = (
        "import sys, atexit; from scheduler.cli import main; sys.argv[0] = 'gangwright'\n"
        f"atexit.register(lambda: print(sorted({HEAVY} & sys.modules.keys()), file=sys.stderr))\n"
        f"main({words})"
    )

    done = subprocess.run(
        [sys.executable, "-c", told],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env=os.environ | environ,
    )

    assert shown in done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


WRONG = {
    "an unknown setting": (["serve", "--set", "verbs.prot=1"], "verbs.prot"),
    "a bad unit": (["serve", "--set", "gangs.timeout=5 parsecs"], "gangs.timeout"),
    "no value": (["serve", "--set", "verbs.port"], "NAME=VALUE"),
    "a file that is not there": (["serve", "--settings", "/nowhere/settings.yaml"], "/nowhere/settings.yaml"),
    "a kubeconfig that is not there": (
        ["serve", "--set", "api.kubeconfig=/nowhere/config"],
        "/nowhere/config",
    ),
    "a name that looks like markup": (["serve", "--set", "[/bold]=1"], "[/bold]"),
    "a file that looks like markup": (["serve", "--settings", "/nowhere/[red].yaml"], "/nowhere/[red].yaml"),
    "nobody to let go": (["ungate"], "--all"),
    "both all and one namespace": (["ungate", "--all", "-n", "team"], "--all"),
    "a context that is nobody's": (
        ["ungate", "--all", "--kubeconfig", "{kubeconfig}", "--context", "nope"],
        "context = 'nope'",
    ),
    "an option before the command": (
        ["--context", "nope", "list"],
        "--context = 'nope': must follow the command. Write: gangwright COMMAND --context",
    ),
    "the same with =": (["--namespace=team", "queue"], "--namespace = 'team': must follow the command"),
    "no namespace's name": (["list", "-n", "../x"], "namespace = '../x': must be the name of a namespace"),
    "no namespace's name before a gang": (["suspend", "A B/train"], "namespace = 'A B'"),
    "no namespace's name to let go": (["ungate", "-n", "a/b"], "namespace = 'a/b'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_words_are_named_in_one_line(case: str, tmp_path: Path):
    """A mistake ends with exit code 2, names what was wrong, and shows no traceback."""
    words, named = WRONG[case]
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")

    said = say(*(path if word == "{kubeconfig}" else word for word in words), COLUMNS="200")

    assert said.code == 2
    assert named in said.err
    assert "Traceback" not in said.err


@pytest.mark.plane
async def test_ungate_lets_every_gated_pod_go(plane, api, namespace):
    """Pods with our gate lose it and nothing else; `--dry-run` only names them."""
    from bench.plane import where

    gates = [{"name": "gangwright.io/planned"}, {"name": "example.com/other"}]
    containers = [{"name": "c", "image": "none"}]
    await api.create_all(
        where("pods", namespace),
        [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"schedulerName": "gangwright", "schedulingGates": own, "containers": containers},
            }
            for name, own in (("one", gates[:1]), ("two", gates), ("three", gates[1:]))
        ],
    )
    words = ["ungate", "-n", namespace, "--kubeconfig", str(plane.kubeconfig())]

    named = gangwright(*words, "--dry-run")
    assert (named.returncode, "2 pods would be ungated" in named.stdout) == (0, True), named.stderr
    done = gangwright(*words)
    assert (done.returncode, "2 pods ungated" in done.stdout) == (0, True), done.stderr

    left = {
        pod["metadata"]["name"]: pod["spec"].get("schedulingGates", [])
        for pod in await api.items(where("pods", namespace))
    }
    assert left == {"one": [], "two": gates[1:], "three": gates[1:]}
