"""Requests to the API server, to the byte; pure.

Lives here: what the master requests. Never here: sending it. Each may be sent twice: a pod keeps the name chosen for
it, a deletion names the uid, a status names the version that it replaces.
"""

import math
from typing import Any, Final
from urllib.parse import quote

import msgspec

from scheduler.elastic.controller.pod_template import Owner, Thing, reference
from scheduler.objects import event_bodies, labels
from scheduler.objects.patches import APPLY, JSON, MERGE, Call
from scheduler.settings import Confinement

JOBS: Final = f"/apis/{labels.OURS}v1alpha1/elasticjobs"
PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
POLICIES: Final = "/apis/networking.k8s.io/v1/networkpolicies"
EVENTS: Final = "/apis/events.k8s.io/v1/events"

REPORTER: Final = f"{labels.OURS}elastic"
"""Reporting controller of the events."""

DNS_PORT: Final = 53

_encoded: Final = msgspec.json.encode


def inside(collection: str, namespace: str, *rest: str) -> str:
    """The path of a collection in one namespace, or of an object in it."""
    root, _, kind = collection.rpartition("/")
    return "/".join((root, "namespaces", quote(namespace, safe=""), kind, *(quote(r, safe="") for r in rest)))


def create_pod(pod: Thing) -> Call:
    return Call("POST", inside(PODS, pod["metadata"]["namespace"]), _encoded(pod))


def delete_pod(namespace: str, name: str, uid: str, grace: float) -> Call:
    """grace: seconds from SIGTERM to SIGKILL."""
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": max(0, math.ceil(grace)),
        "preconditions": {"uid": uid},
    }
    return Call("DELETE", inside(PODS, namespace, name), _encoded(options), JSON, {})


def requote_pod(namespace: str, name: str, uid: str, quorum: int) -> Call:
    body = {"metadata": {"uid": uid, "annotations": {labels.MIN_MEMBERS: str(quorum)}}}
    return Call("PATCH", inside(PODS, namespace, name), _encoded(body), MERGE)


def get_job(owner: Owner) -> Call:
    return Call("GET", inside(JOBS, owner.namespace, owner.name), params={})


def patch_status(owner: Owner, version: str, change: Thing) -> Call:
    """change: a merge patch for the status of this version."""
    body = {"metadata": {"uid": owner.uid, "resourceVersion": version}, "status": change}
    return Call("PATCH", inside(JOBS, owner.namespace, owner.name, "status"), _encoded(body), MERGE)


def tell(owner: Owner, kind: str, reason: str, message: str, now: float) -> Call:
    """An Event on the ElasticJob. kind: Normal or Warning. now: seconds since the epoch."""
    version = f"{labels.OURS}v1alpha1"
    event = event_bodies.body(
        {"namespace": owner.namespace, "generateName": event_bodies.stem(owner.name)},
        event_bodies.reference(version, labels.ELASTIC_KIND, owner.namespace, owner.name, owner.uid),
        reporter=REPORTER,
        action="Training",
        kind=kind,
        reason=reason,
        note=message,
        at=now,
    )
    return Call("POST", inside(EVENTS, owner.namespace), _encoded(event))


def confine(owner: Owner, kind: Confinement, port: int) -> Call:
    """The job's NetworkPolicy, created or updated. port: of the rendezvous."""
    name = f"{owner.name}-workers"
    workers = {"podSelector": {"matchLabels": {labels.ELASTIC_JOB: owner.name}}}
    spec: Thing = {**workers, "policyTypes": ["Ingress"], "ingress": [{"from": [workers]}]}
    if kind is Confinement.BOTH:
        dns = [{"port": DNS_PORT, "protocol": protocol} for protocol in ("UDP", "TCP")]
        spec |= {
            "policyTypes": ["Ingress", "Egress"],
            # The rendezvous is a Service in another namespace, or outside of the cluster: only its port is known.
            "egress": [{"to": [workers]}, {"ports": [{"port": port, "protocol": "TCP"}]}, {"ports": dns}],
        }
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {labels.ELASTIC_JOB: owner.name},
            "ownerReferences": [reference(owner)],
        },
        "spec": spec,
    }
    params = {"fieldManager": labels.FIELD_MANAGER, "force": "true"}
    return Call("PATCH", inside(POLICIES, owner.namespace, name), _encoded(policy), APPLY, params)


def difference(old: Any, new: Any) -> Any:
    """The merge patch (RFC 7396) that turns `old` into `new`; both are JSON objects without nulls."""
    gone: Thing = dict.fromkeys(old.keys() - new.keys())
    changed = {
        key: difference(old[key], value)
        if isinstance(value, dict) and isinstance(old.get(key), dict)
        else value
        for key, value in new.items()
        if key not in old or old[key] != value
    }
    return gone | changed
