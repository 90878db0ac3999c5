"""The Dockerfile, read as words: what no container engine is needed to see."""

import shlex

import pytest

from tests.manifests.support.rendering import ROOT, containers, pod_spec


def instructions():
    """(instruction, rest) of the Dockerfile, continued lines joined, comments left out."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def last_stage():
    found = instructions()
    start = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def test_user_is_the_deployments():
    """The image runs as the same number, not root, that the Deployment insists on."""
    (user,) = [rest for word, rest in last_stage() if word == "USER"]
    context = pod_spec()["securityContext"]

    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["runAsUser"] > 0


def test_every_install_is_pinned_by_hash():
    """Whatever is fetched is fetched by hash and as a wheel; whatever is not, is fetched from nowhere."""
    commands = [part for word, rest in instructions() if word == "RUN" for part in rest.split("&&")]
    installs = [command for command in commands if " install " in command or " wheel " in command]

    assert len(installs) == 4
    for command in installs:
        words = set(shlex.split(command))
        assert {"--require-hashes", "--only-binary=:all:"} <= words or {"--no-deps", "--no-index"} <= words


def test_last_stage_fetches_nothing():
    """The image itself is the base, our environment, and nothing that was run or downloaded there."""
    words = [word for word, _ in last_stage()]

    assert "RUN" not in words
    assert "ADD" not in words
    assert words.count("COPY") == 1


def test_base_by_digest():
    """Both stages start from one base, whose digest a release can give."""
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    arguments = [rest for word, rest in instructions() if word == "ARG"]

    assert bases == ["python:${PYTHON_TAG}${PYTHON_DIGEST}"] * 2
    assert "PYTHON_DIGEST=" in arguments
    assert not [argument for argument in arguments if "latest" in argument]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_context_has_what_is_copied(name):
    """The locks are in the build context, and no address of a package index is in them."""
    admitted = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert f"!{name}" in admitted
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_entrypoint_is_the_command():
    """The Deployment gives the image's command its arguments."""
    (entry,) = [rest for word, rest in last_stage() if word == "ENTRYPOINT"]

    assert entry == '["gangwright"]'
    assert "command" not in containers()["gangwright"]
    assert containers()["gangwright"]["args"][0] == "serve"
