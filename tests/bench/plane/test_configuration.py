"""How a KubeSchedulerConfiguration is filled in for this machine."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.plane.configuration import filled, merged, waits_to_watch
from bench.plane.errors import DescriptionError

KUBECONFIG = Path("/plane/kubeconfig")
EXTENDER = {"urlPrefix": "http://127.0.0.1:10270/v1", "filterVerb": "filter", "weight": 20}


def fill(given: Any, **words: Any) -> dict[str, Any]:
    return filled(given, kubeconfig=KUBECONFIG, **words)


def test_nothing_given_is_the_default_scheduler() -> None:
    """Without a configuration kube-scheduler gets its defaults, and no lease to wait for."""
    config = fill(None)

    assert config["clientConnection"] == {"kubeconfig": str(KUBECONFIG)}
    assert config["leaderElection"] == {"leaderElect": False}


def test_only_addresses_are_changed(tmp_path: Path) -> None:
    """What a file says stays as it is, but for the kubeconfig and where the extender listens."""
    given = {
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True},
        "clientConnection": {"qps": 500},
        "extenders": [EXTENDER],
    }
    place = tmp_path / "config.yaml"
    place.write_text(yaml.safe_dump(given))

    config = fill(place, extender_url="http://127.0.0.1:4711/")

    assert config["leaderElection"] == {"leaderElect": True}
    assert config["clientConnection"] == {"qps": 500, "kubeconfig": str(KUBECONFIG)}
    assert config["extenders"] == [EXTENDER | {"urlPrefix": "http://127.0.0.1:4711/v1"}]


def test_given_mapping_is_left_alone() -> None:
    """The caller's own mapping is not changed."""
    given = {"extenders": [dict(EXTENDER)]}

    fill(given, extender_url="http://127.0.0.1:1", changes={"percentageOfNodesToScore": 100})

    assert given == {"extenders": [EXTENDER]}


def test_changes_are_laid_over() -> None:
    """Mappings are merged, everything else is replaced."""
    base = {"a": {"x": 1, "y": 2}, "b": [1, 2]}

    assert merged(base, {"a": {"y": 3}, "b": [4]}) == {"a": {"x": 1, "y": 3}, "b": [4]}


def test_address_without_extender_is_refused() -> None:
    """An extender's address for a configuration without extenders is a mistake, not a wish."""
    with pytest.raises(DescriptionError, match="extenders"):
        fill(None, extender_url="http://127.0.0.1:1")


@pytest.mark.parametrize("given", ["- a list", "kind: Pod"])
def test_another_kind_is_refused(given: str, tmp_path: Path) -> None:
    """A file that is no KubeSchedulerConfiguration is refused by name."""
    place = tmp_path / "config.yaml"
    place.write_text(given)

    with pytest.raises(DescriptionError, match="KubeSchedulerConfiguration"):
        fill(place)


@pytest.mark.parametrize(
    ("config", "waits"),
    [
        ({}, False),
        ({"delayCacheUntilActive": True}, True),
        ({"delayCacheUntilActive": True, "leaderElection": {"leaderElect": True}}, True),
        ({"delayCacheUntilActive": True, "leaderElection": {"leaderElect": False}}, False),
        ({"leaderElection": {"leaderElect": True}}, False),
    ],
)
def test_who_waits_to_watch(config: dict[str, Any], waits: bool) -> None:
    """A kube-scheduler that has no election to win reads the cluster at once, whatever else is asked."""
    assert waits_to_watch(config) is waits
