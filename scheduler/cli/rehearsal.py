"""Whether the API server would take the pods, asked before their maker is applied.

A Job is taken whatever its template says; that a RuntimeClass is missing, or a quota is full, is found when its pods
are made, and is then told on the Job alone. Lives here: one dry run a template. Never here: what the pods say of their
gang (`wishing`).
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from scheduler import errors
from scheduler.cli.jobs import Template, Thing, templates
from scheduler.kube.client import Client

LACKS_RIGHT: Final = 'pods is forbidden: User "'
"""So the API server begins where the person may not make pods: their maker may, which says nothing of the pods."""

OWN_WAY: Final = ("Pod/", "ElasticJob/")
"""Makers that are not asked about: a pod is its own, and workers get more than their template has."""


async def refusals(client: Client, things: Sequence[Thing], namespace: str) -> AsyncIterator[str]:
    """What the API server has against the pods as the cluster is now; nothing where the manifests change that first.

    Where it cannot tell, that is said of the first, and no other is asked about: nothing hangs on the answer.
    """
    made = [(thing, templates(thing, namespace)) for thing in things]
    if any(not found and thing["kind"] != "PodGroup" for thing, found in made):
        return
    for own in (own for _, found in made for own in found):
        if own.maker.startswith(OWN_WAY):
            continue
        try:
            await _try(client, own)
        except (errors.Forbidden, errors.Invalid) as refused:
            if LACKS_RIGHT not in str(refused):
                yield f"{own.maker}: its pods would be refused: {refused}"
        except errors.NotFound:
            continue
        except errors.KubeError as error:
            yield f"{own.maker}: not known whether its pods would be refused: {error}"
            return


async def _try(client: Client, own: Template) -> None:
    said: Thing = own.pod.get("metadata") or {}
    meta: Thing = {key: said[key] for key in ("labels", "annotations") if key in said}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "generateName": f"{own.name}-"},
        "spec": own.spec(f"{own.name}-0"),
    }
    path = f"/api/v1/namespaces/{own.namespace}/pods"
    await client.request("POST", path, params={"dryRun": "All"}, body=msgspec.json.encode(pod))
