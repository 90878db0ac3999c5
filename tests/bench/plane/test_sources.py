"""Which programs, from where, in which version."""

import pytest

from bench.plane import sources

GO_MOD = """
module example

go 1.26.0

require k8s.io/kubernetes v1.37.0

require (
	k8s.io/kubernetes-extra v0.1.0 // indirect
	example.org/other v2.3.4-rc.1
)
"""


def test_versions_come_from_go_mod() -> None:
    """A module's version is found whether it is required alone or in a block, and never by a longer name."""
    assert sources.required(GO_MOD, "k8s.io/kubernetes") == "1.37.0"
    assert sources.required(GO_MOD, "example.org/other") == "2.3.4-rc.1"


def test_missing_module_is_named() -> None:
    """A module that go.mod does not require is an error that names it."""
    with pytest.raises(LookupError, match=r"example\.org/absent"):
        sources.required(GO_MOD, "example.org/absent")


def test_every_source_has_a_version() -> None:
    """Each wrapper module requires the module whose version its programs carry."""
    for source in sources.SOURCES:
        assert sources.release(source.version) > (0, 0, 0), source.folder


def test_kubernetes_learns_its_version() -> None:
    """The API server is told its version at link time; other programs need no such thing."""
    assert f"gitVersion=v{sources.KUBERNETES.version}" in sources.KUBERNETES.ldflags
    assert "-X" not in sources.ETCD.ldflags


@pytest.mark.parametrize(
    ("told", "ours", "same"),
    [
        ("Kubernetes v1.37.4", "1.37.0", True),
        ("Kubernetes v1.36.0", "1.37.0", False),
        ("etcd Version: 3.6.1\nGit SHA: 1.2.3", "3.6.16", True),
    ],
)
def test_patch_releases_are_interchangeable(told: str, ours: str, same: bool) -> None:
    """Versions count as the same when they differ in the patch only."""
    assert sources.same_minor(told, ours) is same
