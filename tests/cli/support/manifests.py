"""Manifests that people write."""

from tests.cli.support.speaking import GPU

OURS = "gangwright.io/"


def a_job(name="train", size=2, gpus=8, *, gang="train", quorum=None, spec=None, **job):
    """A Job whose pods are one gang."""
    said = {OURS + "min-members": str(size if quorum is None else quorum)} if gang else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": size,
            "podReplacementPolicy": "Failed",
            **job,
            "template": {
                "metadata": {"labels": {OURS + "gang": gang} if gang else {}, "annotations": said},
                "spec": {
                    "schedulerName": "gangwright",
                    "containers": [{"name": "main", "resources": {"limits": {"cpu": 1, GPU: gpus}}}],
                    **(spec or {}),
                },
            },
        },
    }
