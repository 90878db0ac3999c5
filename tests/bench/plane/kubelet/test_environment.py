"""What a pod finds on the stand-in kubelet: its variables, its volumes, its tokens and the API server."""

import base64
from pathlib import Path

import pytest

from bench.plane import where
from tests.bench.plane.kubelet.running import in_phase, logged, only

pytestmark = pytest.mark.plane


AUDIENCE = "gangwright-test"


async def test_environment_and_downward_api(submit, told, kubelet, api, namespace):
    """Values, fields of the pod, ConfigMaps and Secrets come in; nothing of the test's own environment does."""
    await api.create(
        where("configmaps", namespace), {"metadata": {"name": "c"}, "data": {"k": "from-config"}}
    )
    secret = {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(b"from-secret").decode()}}
    await api.create(where("secrets", namespace), secret)
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "UID_", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "ROLE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['role']"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    mounts = [{"name": "said", "mountPath": "/etc/said"}]
    said = {"name": "said", "projected": {"sources": [
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "deep/k"}]}},
    ]}}  # fmt: skip
    pod = await submit("a", 'env; cat /etc/said/labels /etc/said/deep/k; echo "/$1/"; pwd',
                       container={"env": env, "volumeMounts": mounts, "args": ["zero", "$(PLAIN)-$(NODE)"],
                                  "workingDir": "/etc"},
                       metadata={"labels": {"role": "core"}}, volumes=[said])  # fmt: skip
    done = await told("a", in_phase("Succeeded", "Failed"))
    lines = kubelet.log(pod).splitlines()
    node = done["spec"]["nodeName"]
    assert set(lines) >= {
        "PLAIN=x", "NAME=a", f"UID_={pod['metadata']['uid']}", f"NODE={node}", f"IP={done['status']['podIP']}",
        "ROLE=core", "C=from-config", "S=from-secret", "HOSTNAME=a", 'role="core"', "/etc",
    }  # fmt: skip
    assert lines[-2].endswith(f"from-config/x-{node}/")
    assert not [line for line in lines if "PYTEST" in line]


async def test_what_is_missing_is_waited_for(submit, told, kubelet, api, namespace):
    """A ConfigMap that is not there yet is named in the status; once it is there the pod starts."""
    env = [{"name": "C", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]
    pod = await submit("a", "echo $C", container={"env": env})

    def waits(own):
        states = own["status"].get("containerStatuses")
        return states and states[0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"

    assert '"late" not found' in only(await told("a", waits))["state"]["waiting"]["message"]
    await api.create(where("configmaps", namespace), {"metadata": {"name": "late"}, "data": {"k": "came"}})
    await told("a", in_phase("Succeeded"))
    assert kubelet.log(pod) == "came\n"


async def review(api, token):
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    return (await api.create(where("authentication.k8s.io/v1/tokenreviews"), body))["status"]


async def test_projected_tokens(submit, kubelet, api, namespace):
    """They are accepted for their audience as the pod's, renewed in place, and refused once the pod is gone."""
    source = {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 600, "path": "token"}}
    mount = {"name": "identity", "mountPath": "/var/run/secrets/gangwright", "readOnly": True}
    pod = await submit("a", "cat $FILE; echo; echo up; while :; do sleep 0.02; done",
                       container={"volumeMounts": [mount],
                                  "env": [{"name": "FILE", "value": "/var/run/secrets/gangwright/token"}]},
                       volumes=[{"name": "identity", "projected": {"sources": [source]}}])  # fmt: skip
    await logged(kubelet, pod, "up")
    token = kubelet.log(pod).split()[0]
    file = kubelet.folder / "pods" / pod["metadata"]["uid"] / "volumes" / "identity" / "token"
    accepted = await review(api, token)
    assert accepted["authenticated"]
    assert accepted["audiences"] == [AUDIENCE]
    assert accepted["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    assert accepted["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    assert accepted["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["a"]
    kubelet.renew_tokens(pod)
    renewed = file.read_text()
    assert renewed != token
    await api.delete(where("pods", namespace, "a"), grace=1)
    await api.gone(where("pods", namespace, "a"))
    # The API server remembers for seconds what it said of a token; of this one it said nothing yet.
    assert not (await review(api, renewed)).get("authenticated")


async def test_the_api_server_is_where_pods_look_for_it(submit, told, kubelet):
    """What a cluster's own client libraries read is there: address, token, certificate authority and namespace."""
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = (
        "import json, os, ssl, urllib.request\n"
        f"place = '{place}'\n"
        "context = ssl.create_default_context(cafile=place + '/ca.crt')\n"
        "url = 'https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}'.format(**os.environ)\n"
        "headers = {'Authorization': 'Bearer ' + open(place + '/token').read()}\n"
        "request = urllib.request.Request(url + '/apis', headers=headers)\n"
        "print(json.load(urllib.request.urlopen(request, context=context))['kind'], open(place + '/namespace').read())\n"
    )
    pod = await submit("a", "", container={"image": "ours", "command": ["python", "-c", script]},
                       automountServiceAccountToken=True)  # fmt: skip
    await told("a", in_phase("Succeeded", "Failed"))
    assert kubelet.log(pod) == f"APIGroupList {pod['metadata']['namespace']}\n"


async def test_init_containers_share_volumes_and_come_first(submit, told, kubelet):
    """What an init container leaves in an emptyDir the container finds; the second one sees the first one's."""
    mounts = [{"name": "shared", "mountPath": "/gangwright"}]
    inits = [
        {
            "name": "one",
            "image": "plain",
            "command": ["sh", "-c", "echo 1 > /gangwright/x"],
            "volumeMounts": mounts,
        },
        {
            "name": "two",
            "image": "plain",
            "command": ["sh", "-c", "echo 2 >> /gangwright/x"],
            "volumeMounts": mounts,
        },
    ]
    pod = await submit("a", "cat /gangwright/x", container={"volumeMounts": mounts}, initContainers=inits,
                       volumes=[{"name": "shared", "emptyDir": {}}])  # fmt: skip
    done = await told("a", in_phase("Succeeded", "Failed"))
    assert kubelet.log(pod, "main") == "1\n2\n"
    assert [own["state"]["terminated"]["reason"] for own in done["status"]["initContainerStatuses"]] == [
        "Completed"
    ] * 2
    assert not Path("/gangwright").exists()
