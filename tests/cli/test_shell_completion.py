"""Names that Tab completes: what the status service knows, to shells and to kubectl."""

import asyncio
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import pytest
from structlog.testing import capture_logs

from scheduler.cli import kubectl_completion, shell_completion
from tests.kube.support.kubeconfig import kubeconfig
from tests.status.support.reviewing import ADMIN, JANE, everybody
from tests.status.support.scene import a_scene
from tests.status.support.scripted import Scripted
from tests.status.support.served import served


@pytest.fixture
async def service():
    with capture_logs():  # of the service, which runs in this process
        async with served(a_scene().engine, everybody(), operator=Scripted(), endless=True) as running:
            yield running


@pytest.fixture
def config(tmp_path):
    """The kubeconfig of a person with this token."""
    return lambda token: kubeconfig(tmp_path, "http://127.0.0.1:1", user={"token": token})


def completed(*words, **environ):
    """What kubectl is told, and what is written beside it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), mock.patch.dict(os.environ, environ):
        kubectl_completion.main(words)
    return out.getvalue().splitlines(), err.getvalue()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["explain", ""], []),
        (["explain", "team-a/"], ["team-a/solo", "team-a/train", "team-a/wrong"]),
        (["explain", "team-a/tr"], ["team-a/train"]),
        (["explain", "-n", "team-b", "h"], ["huge"]),
        (["resize", "-n", "team-b", ""], ["huge", "late"]),
        (["list", "-n", ""], ["team-a", "team-b"]),
        (["list", "--namespace", "team-b"], ["team-b"]),
    ],
)
async def test_names_of_gangs_and_namespaces(service, config, words, found):
    """Those that begin so, of the namespace that is named, or of the context's."""
    environ = {"KUBECONFIG": config(ADMIN), "GANGWRIGHT_SERVER": service.url}

    told, beside = await asyncio.to_thread(completed, *words, **environ)

    assert (told, beside) == ([*found, ":4"], "")


async def test_hidden_names_are_not_completed(service, config):
    """A person is told the namespaces that the service shows that person."""
    environ = {"KUBECONFIG": config(JANE), "GANGWRIGHT_SERVER": service.url}

    told, _ = await asyncio.to_thread(completed, "list", "-n", "", **environ)

    assert told == ["team-a", ":4"]


def test_commands_and_their_lines():
    """As cobra has it: candidate, tab, description; then the directive."""
    (told, end), _ = completed("expl")

    assert (told.startswith("explain\tExplain why a gang waits"), end) == (True, ":4")


@pytest.mark.parametrize("words", [["submit", "-f", ""], ["list", "--kubeconfig", "/e"]])
def test_files_are_the_shells(words):
    """Where a file is meant, the shell completes."""
    assert completed(*words) == ([":0"], "")


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "ftp://nonsense"])
def test_a_failure_completes_nothing(config, server):
    """And writes nothing: the person is in the midst of a line."""
    environ = {"KUBECONFIG": config(ADMIN), "GANGWRIGHT_SERVER": server}

    assert completed("explain", "team-a/", **environ) == ([":4"], "")


def test_a_silent_service_is_not_waited_for(monkeypatch):
    """After a moment nothing is completed."""
    monkeypatch.setattr(shell_completion, "PATIENCE", 0.0)

    assert shell_completion.namespaces({"server": "http://127.0.0.1:1"}, "") == []
