"""What a pod says of its containers, and what is told of them: without processes, without an API server."""

import pytest

from bench.plane.kubelet import status
from bench.plane.kubelet.container import Order
from bench.plane.kubelet.environment import (
    FIELDS,
    Addresses,
    ConfigError,
    environment,
    expanded,
    field,
    references,
    words,
)
from bench.plane.kubelet.orders import rewritten
from bench.plane.kubelet.status import State

HERE = Addresses("127.1.0.7", "127.0.0.1")
POD = {
    "metadata": {
        "name": "a-0",
        "namespace": "team",
        "uid": "u-1",
        "labels": {"app": "a", "tier": 'the "first"'},
        "annotations": {"gangwright.io/members": "8"},
    },
    "spec": {"nodeName": "n0", "containers": []},
}


def made(env=(), sources=(), contents=None, first=None):
    return environment(
        {"name": "main", "env": list(env), "envFrom": list(sources)}, POD, HERE, contents or {}, first or {}
    )


def state(code=None, *, running=False, waiting=False):
    own = State("main", "sh")
    if running:
        own.run("now")
    elif not waiting:
        own.end(code, "now")
    return own


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("$(A)/x", "1/x"),
        ("$(A)$(B)", "12"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$A ${A}", "$A ${A}"),
        ("100$", "100$"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text, becomes):
    """Known names are replaced, unknown ones stay, two dollar signs are one."""
    assert expanded(text, {"A": "1", "B": "2"}) == becomes


def test_a_variable_may_refer_to_those_before_it():
    """Later variables see earlier ones, and what the image says; not the other way round."""
    env = [{"name": "A", "value": "$(B)-$(HOME)"}, {"name": "B", "value": "$(A)!"}]
    assert made(env, first={"HOME": "/root"}) == {"HOME": "/root", "A": "$(B)-/root", "B": "$(B)-/root!"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "a-0"),
        ("metadata.uid", "u-1"),
        ("metadata.namespace", "team"),
        ("metadata.labels['app']", "a"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['gangwright.io/members']", "8"),
        ("metadata.labels", 'app="a"\ntier="the \\"first\\""'),
        ("spec.nodeName", "n0"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.1.0.7"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod(path, value):
    """The downward API gives what the pod's object and its place say."""
    assert field(POD, path, HERE) == value


def test_an_unknown_field_is_named():
    """Nobody gets an empty string for a field that was misspelt."""
    with pytest.raises(ConfigError, match=r"metadata\.nmae") as refused:
        field(POD, "metadata.nmae", HERE)
    assert all(known in str(refused.value) for known in FIELDS)


def test_keys_of_objects():
    """ConfigMaps and Secrets give single keys or all of them, with a prefix; missing ones are refused unless
    optional.
    """
    sources = [{"configMapRef": {"name": "all"}, "prefix": "P_"}]
    one = {"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    gone = {"name": "TWO", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no", "optional": True}}}
    contents = {("configmaps", "all"): {"a": "1"}, ("secrets", "s"): {"k": "v"}}
    assert made([one, gone], sources, contents) == {"P_a": "1", "ONE": "v"}
    container = {"env": [one, gone], "envFrom": sources}
    assert list(references(container)) == [
        (("configmaps", "all"), False),
        (("secrets", "s"), False),
        (("secrets", "s"), True),
    ]
    with pytest.raises(ConfigError, match="couldn't find key k in s"):
        made([one], contents={("secrets", "s"): {}})


def test_command_and_arguments():
    """The pod's command replaces the image's entrypoint, arguments follow either; none at all is refused."""
    known = {"A": "1"}
    assert words({"name": "m", "command": ["x", "$(A)"], "args": ["y"]}, ["e"], known) == ["x", "1", "y"]
    assert words({"name": "m", "args": ["y"]}, ["e"], known) == ["e", "y"]
    with pytest.raises(ConfigError, match="container m"):
        words({"name": "m"}, [], known)


def test_mount_paths_are_rewritten_where_they_begin():
    """Without namespaces a word that names a mount path, or something in it, names our folder."""
    order = Order(
        ["cat", "/gangwright/agent.pyz", "--in=/data", "sh -c 'ls /data/x'", "/gangwright2", "/x/data"],
        {"TOKEN": "/var/run/secrets/t/token", "LIST": "/data:/other"},
        "log",
        mounts=[
            ("/p/g", "/gangwright", False),
            ("/p/d", "/data/", False),
            ("/p/t", "/var/run/secrets/t", True),
        ],
    )
    done = rewritten(order)
    assert list(done.command) == [
        "cat",
        "/p/g/agent.pyz",
        "--in=/p/d",
        "sh -c 'ls /p/d/x'",
        "/gangwright2",
        "/x/data",
    ]
    assert done.env == {"TOKEN": "/p/t/token", "LIST": "/p/d:/other"}


@pytest.mark.parametrize(
    ("policy", "inits", "mains", "stopped", "phase"),
    [
        ("Never", [], [state(waiting=True)], False, "Pending"),
        ("Never", [state(running=True)], [state(waiting=True)], False, "Pending"),
        ("Never", [state(1)], [state(waiting=True)], False, "Failed"),
        ("OnFailure", [state(1)], [state(waiting=True)], False, "Pending"),
        ("Never", [state(0)], [state(running=True)], False, "Running"),
        ("Never", [], [state(0), state(running=True)], False, "Running"),
        ("Never", [], [state(0), state(1)], False, "Failed"),
        ("Never", [], [state(0), state(0)], False, "Succeeded"),
        ("OnFailure", [], [state(1)], False, "Running"),
        ("Always", [], [state(0)], False, "Running"),
        ("Always", [], [state(143)], True, "Failed"),
        ("Always", [], [state(0)], True, "Succeeded"),
        ("Always", [], [state(waiting=True)], True, "Failed"),
    ],
)
def test_phases(policy, inits, mains, stopped, phase):
    """A pod's phase follows from its containers, its restart policy, and whether it is being ended."""
    assert status.phase(policy, inits, mains, stopped=stopped) == phase


def test_what_is_told_of_a_container():
    """State, last state and restarts change as a kubelet changes them."""
    own = State("main", "sh")
    own.run("t1")
    own.ready = own.started = True
    assert (own.restarts, own.object()["state"]) == (0, {"running": {"startedAt": "t1"}})
    own.end(143, "t2")
    assert (own.ready, own.code, own.now["terminated"]["reason"]) == (False, 143, "Error")
    own.wait("CrashLoopBackOff")
    own.run("t3")
    assert (own.restarts, own.last["terminated"]["finishedAt"]) == (1, "t2")
    own.end(0, "t4")
    assert own.now["terminated"]["startedAt"] == "t3"
    assert own.now["terminated"]["reason"] == "Completed"


def test_a_condition_keeps_the_time_of_its_last_change():
    """Who looks at lastTransitionTime learns when it changed, not when it was written last."""
    running = state(running=True)
    running.ready = True
    told = status.status(POD, [], [running], now="t1", began="t0", ip="127.1.0.7", host="127.0.0.1")
    later = status.status(
        {**POD, "status": told}, [], [state(0)], now="t2", began="t0", ip="127.1.0.7", host="127.0.0.1"
    )
    was, became = ({own["type"]: own for own in said["conditions"]} for said in (told, later))
    assert (was["Ready"]["status"], was["Ready"]["lastTransitionTime"]) == ("True", "t1")
    assert (became["Ready"]["status"], became["Ready"]["lastTransitionTime"]) == ("False", "t2")
    assert became["Initialized"]["lastTransitionTime"] == "t1"
