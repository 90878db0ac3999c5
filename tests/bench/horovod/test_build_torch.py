"""PyTorch for the tests: what is built against what, and what is said where there is none."""

import pytest

from bench.horovod import build, build_torch
from bench.plane.errors import BuildError


def test_the_tools_come_by_the_hashes_of_the_lock_file():
    """Each of them once, with its hashes, and nothing of TensorFlow's."""
    text = build_torch.chosen(build.PACKAGES.read_text(), build_torch.TOOLS)
    lines = text.splitlines()
    named = [line.split("==")[0] for line in lines if "==" in line]
    assert sorted(named) == sorted(build_torch.TOOLS)
    assert sum("--hash=sha256:" in line for line in lines) >= len(named)


def test_another_pytorch_is_another_folder(tmp_path, monkeypatch):
    """An environment is of one version of Debian's package; without the package there is none."""
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    place = build_torch.folder("1.13.1+dfsg-4", env) / "bin" / "python"
    place.parent.mkdir(parents=True)
    place.touch()
    found = {}
    for version in ("1.13.1+dfsg-4", "2.6.0+dfsg-7", ""):
        monkeypatch.setattr(build_torch, "_installed", lambda version=version: version)
        found[version] = build_torch.find(env)
    assert found == {"1.13.1+dfsg-4": place, "2.6.0+dfsg-7": None, "": None}


def test_whoever_may_not_install_it_is_told_what_to_install(tmp_path, monkeypatch):
    """Without root the message names Debian's packages and the command that comes after."""
    monkeypatch.setattr(build_torch, "_installed", lambda: "")
    monkeypatch.setattr(build_torch.os, "geteuid", lambda: 1000)
    with pytest.raises(BuildError, match=r"apt-get install python3-torch .*bench\.horovod torch"):
        build_torch.python({"XDG_CACHE_HOME": str(tmp_path)})


def test_a_failed_build_leaves_nothing_behind(tmp_path, monkeypatch):
    """What was begun is removed, and the error ends with what the program said."""
    monkeypatch.setattr(build_torch, "_installed", lambda: "1")
    monkeypatch.setattr(build_torch, "_debian", lambda: None)
    monkeypatch.setattr(build_torch, "SYSTEM", "false")
    with pytest.raises(BuildError, match=r"`false -m venv .* ended with 1"):
        build_torch.python({"XDG_CACHE_HOME": str(tmp_path)})
    assert [one.name for one in (tmp_path / "gangwright" / "horovod").iterdir()] == [".lock"]
