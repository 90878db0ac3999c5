"""Scripts of other kinds are told to the agent as soon as they show, and end; all others are left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.elastic.runtime.test_shim import Agent

ROOT = Path(__file__).parents[3]
MODULES = {
    "torch/__init__.py": "import torch.distributed",
    "torch/distributed/__init__.py": "from .distributed_c10d import *",
    "torch/distributed/distributed_c10d.py": """
        def init_process_group(backend):
            print(f"a group over {backend}")
        """,
    "torch/distributed/launcher/__init__.py": "from torch.distributed.launcher.api import launch_agent",
    "torch/distributed/launcher/api.py": """
        class elastic_launch:
            def __call__(self):
                return launch_agent()

        def launch_agent():
            print("launched")
        """,
    "torch/distributed/run.py": """
        from torch.distributed.launcher.api import elastic_launch

        elastic_launch()()
        """,
    "horovod/__init__.py": "",
}
"""Of a PyTorch that is no more than its names."""

START = "from scheduler.elastic import runtime; runtime.activate(); "
GROUP = "import torch.distributed as dist; dist.init_process_group('gloo'); print('on')"
LATER = "from torch.distributed.distributed_c10d import init_process_group as init; init(backend='gloo'); print('on')"
TORCHRUN = "import runpy; runpy.run_module('torch.distributed.run', run_name='__main__'); print('on')"


@pytest.fixture
def packages(tmp_path):
    """The folder of the modules."""
    for name, text in MODULES.items():
        lines = text.splitlines()
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(line[indent:] for line in lines))
    return tmp_path


def run(script, packages, agent=None, **more):
    """The script below this agent."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]), **more}
    if agent is not None:
        env |= {
            "GANGWRIGHT_SHIM": f"http://127.0.0.1:{agent.server.server_address[1]}",
            "GANGWRIGHT_SHIM_KEY": "secret",
        }
    return subprocess.run(
        [sys.executable, "-c", START + script],
        env=env,
        cwd=packages,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("script", "env", "sign"),
    [
        (GROUP, {}, "it calls torch.distributed.init_process_group without Horovod"),
        (LATER, {}, "it calls torch.distributed.init_process_group without Horovod"),
        (TORCHRUN, {}, "torchrun runs it"),
        ("print('on')", {"TORCHELASTIC_RUN_ID": "none"}, "torchrun runs it"),
    ],
)
def test_a_script_of_another_kind_tells_the_agent_and_ends(packages, script, env, sign):
    """Before it does anything of the kind, with a word on what to do."""
    with Agent((200, {})) as (agent, _):
        done = run(script, packages, agent, **env)

    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    why = f"the script is not elastic: {sign}. Decorate its training function with hvd.elastic.run, or run it as an "
    assert done.stderr.startswith(f"gangwright: {why}")
    assert "Traceback" not in done.stderr
    ((verb, path, key, body),) = agent.asked
    assert (verb, path, key) == ("POST", "/gone", "Bearer secret")
    told = json.loads(body)
    assert (told["code"], told["foreign"]) == (1, sign)
    assert told["why"].startswith(why)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import torch, torch.distributed.launcher; print('on')", "on\n"),
        (f"import horovod; {GROUP}", "a group over gloo\non\n"),
        (f"import horovod; {LATER}", "a group over gloo\non\n"),
    ],
)
def test_an_import_and_a_group_beside_horovod_say_nothing(packages, script, said):
    """`import torch` alone imports all of it, and a script of Horovod may do what it likes."""
    with Agent((200, {})) as (agent, _):
        done = run(script, packages, agent)

    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    assert agent.asked == []


@pytest.mark.parametrize("script", [GROUP, TORCHRUN])
@pytest.mark.parametrize("env", [{}, {"TORCHELASTIC_RUN_ID": "none"}])
def test_where_the_agent_refuses_the_script_goes_on(packages, script, env):
    """An elastic training has begun there: this is a tool that it runs."""
    with Agent((409, {})) as (agent, _):
        done = run(script, packages, agent, **env)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "on"), done.stderr
    assert agent.asked


@pytest.mark.parametrize("script", [GROUP, TORCHRUN])
def test_outside_of_an_agent_nothing_is_changed(packages, script):
    """Nor said."""
    done = run(script, packages, TORCHELASTIC_RUN_ID="none")

    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "on", "")
