"""Where the environment of real Horovod lies, what is pinned, and what is said when something is missing."""

import re

import pytest

from bench.horovod import build
from bench.plane.errors import BuildError


def test_the_folder_is_of_exactly_these_versions(tmp_path, monkeypatch):
    """Another lock file is another folder, in the user's cache."""
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    mine = build.folder(env)
    assert mine.parent == tmp_path / "gangwright" / "horovod"
    assert mine.name.startswith("tensorflow2.15.1-horovod0.28.1-")
    assert build.find(env) is None
    other = tmp_path / "other.lock"
    other.write_text("nothing")
    monkeypatch.setattr(build, "PACKAGES", other)
    assert build.folder(env) != mine


def test_every_package_is_pinned_with_a_hash_and_no_address():
    """Each line is one version with hashes; where it comes from is the machine's own setting."""
    text = build.PACKAGES.read_text() + build.HOROVOD.read_text()
    blocks = re.split(
        r"(?m)^(?=[a-z0-9])", "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    )
    pinned = [block for block in blocks if block.strip()]
    assert len(pinned) > 40
    assert all(re.match(r"[-a-z0-9]+==\S+ \\\n    --hash=sha256:", block) for block in pinned)
    assert "://" not in text
    assert {"tensorflow-cpu==2.15.1", "numpy==1.26.4", "horovod==0.28.1"} <= {
        block.split(" ")[0] for block in pinned
    }


def test_a_missing_compiler_is_named_to_whoever_may_not_install_it(monkeypatch):
    """Without root the message says what to install."""
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.setattr(build.os, "geteuid", lambda: 1000)
    with pytest.raises(BuildError, match="apt-get install g\\+\\+ make"):
        build._compiler()


def test_a_missing_interpreter_is_named(monkeypatch):
    """Only a Python 3.11 will do, and the message says so."""
    monkeypatch.setattr(build, "_is_3_11", lambda place: False)
    with pytest.raises(BuildError, match=r"needs Python 3\.11"):
        build._interpreter()


def test_a_failed_build_leaves_nothing_behind(tmp_path, monkeypatch):
    """What was begun is removed, the error ends with what the program said, and the next try begins anew."""
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    monkeypatch.setattr(build, "_interpreter", lambda: "false")
    monkeypatch.setattr(build, "_compiler", lambda: None)
    with pytest.raises(BuildError, match=r"`false -m venv .* ended with 1"):
        build.python(env)
    assert [one.name for one in build.folder(env).parent.iterdir()] == [".lock"]
