"""A worker's pod: what the master writes, what stays of the template, and templates that are none."""

import copy
import subprocess
import sys
import zipfile

import msgspec
import pytest

from scheduler.elastic.controller.pod_template import (
    ARCHIVE,
    INSTALL,
    LONGEST_JOB,
    SURPLUS,
    TOKEN_FOLDER,
    Kit,
    Owner,
    Worker,
    manifest,
    problems,
    worker_name,
)
from scheduler.elastic.job import Spec, Strategy
from scheduler.elastic.job.spec import Checkpoint
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.demand import Operator, Requirement
from scheduler.objects import affinity, api
from scheduler.objects.gangs import read
from scheduler.settings import Workers

OWNER = Owner("team", "train", "uid-job")
IMAGE = "registry.example/gangwright:1"
KIT = Kit("https://rendezvous.example:10273", "PEM", settings=Workers(image=IMAGE))
TEMPLATE = {
    "metadata": {"labels": {"app": "vision"}, "annotations": {"note": "mine"}},
    "spec": {
        "priorityClassName": "training",
        "serviceAccountName": "trainer",
        "containers": [
            {
                "name": "main",
                "image": "tf",
                "command": ["python", "train.py"],
                "args": ["--lr=$(LR)"],
                "env": [{"name": "LR", "value": "0.1"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            },
            {"name": "log", "image": "log"},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
SPEC = Spec(min_workers=2, max_workers=4, template=TEMPLATE)


def made(spec=SPEC, kit=KIT, **worker):
    return manifest(OWNER, spec, Worker(**{"name": "train-3-abcde", "number": 3, **worker}), kit)


def changed(**fields):
    """The same job with other fields in its template's spec."""
    return msgspec.structs.replace(
        SPEC, template={**TEMPLATE, "spec": {**copy.deepcopy(TEMPLATE["spec"]), **fields}}
    )


def environment(pod):
    return {own["name"]: own.get("value") for own in pod["spec"]["containers"][0]["env"]}


def test_the_scheduler_knows_it_as_a_member_of_the_jobs_gang():
    """Labels and annotations are those that the scheduler reads, without a complaint."""
    spec = msgspec.structs.replace(SPEC, strategy=Strategy.SPREAD, level="rack", level_required=True)
    meta = made(spec)["metadata"]

    said = read("team", meta["labels"], meta["annotations"], DEFAULT_LEVELS)

    assert not said.complaints
    assert said.membership.gang.name == "train"
    assert said.membership.quorum == {"": 2}
    wish = said.membership.wish
    assert (wish.strategy, wish.level, wish.required) == ("spread", "rack", True)


def test_surplus_is_labelled_and_less_important():
    """It has the surplus label and the priority class of surplus, whatever admission made of the other."""
    spec = changed(priority=1000, preemptionPolicy="Never")
    pod = made(spec, role=SURPLUS)

    assert pod["metadata"]["labels"]["gangwright.io/surplus"] == "true"
    assert pod["metadata"]["labels"]["gangwright.io/elastic-role"] == "surplus"
    assert pod["spec"]["priorityClassName"] == "gangwright-surplus"
    assert pod["spec"].keys().isdisjoint({"priority", "preemptionPolicy"})


def test_a_core_has_the_priority_of_the_job():
    """It keeps the template's class, and is no surplus."""
    pod = made()

    assert pod["spec"]["priorityClassName"] == "training"
    assert "gangwright.io/surplus" not in pod["metadata"]["labels"]


def test_it_is_gated_and_goes_with_the_job():
    """The gate, the scheduler, the restart policy and the owner are ours to say."""
    pod = made(changed(schedulerName="other", restartPolicy="Always", nodeName="n0"))

    assert pod["spec"]["schedulingGates"] == [{"name": "gangwright.io/planned"}]
    assert (pod["spec"]["schedulerName"], pod["spec"]["restartPolicy"]) == ("gangwright", "Never")
    assert "nodeName" not in pod["spec"]
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["apiVersion"]) == ("ElasticJob", "gangwright.io/v1alpha1")
    assert (owner["uid"], owner["controller"]) == ("uid-job", True)


def test_metadata_of_a_template_is_labels_and_annotations():
    """No template says where its pod lives, what it is called, whose it is, or what holds it when it is deleted."""
    written = {
        "namespace": "kube-system",
        "name": "etcd",
        "generateName": "etcd-",
        "finalizers": ["example.com/never"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": "u"}],
    }
    spec = copy.deepcopy(TEMPLATE)
    spec["metadata"] |= written

    assert made(msgspec.structs.replace(SPEC, template=spec))["metadata"] == made(SPEC)["metadata"]


def test_a_gate_of_somebody_else_stays():
    """Others may hold the pod back too; our own gate is there once."""
    gates = [{"name": "other"}, {"name": "gangwright.io/planned"}]

    assert made(changed(schedulingGates=gates))["spec"]["schedulingGates"] == gates


def test_the_agent_starts_what_trains():
    """The first container's command is wrapped; arguments, image, resources and the other containers stay."""
    pod = made()
    first, second = pod["spec"]["containers"]

    assert first["command"] == ["python", ARCHIVE, "--", "python", "train.py"]
    assert first["args"] == ["--lr=$(LR)"]
    assert first["image"] == "tf"
    assert first["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert second == {"name": "log", "image": "log"}


def test_the_agent_is_brought_by_an_init_container():
    """It runs first, in our image, as nobody, and both containers share the folder."""
    pod = made(changed(initContainers=[{"name": "fetch", "image": "x"}]))
    bring, fetch = pod["spec"]["initContainers"]

    assert (bring["image"], fetch["name"]) == (IMAGE, "fetch")
    assert bring["securityContext"]["runAsNonRoot"]
    assert bring["command"][-1] == ARCHIVE
    mount = {"name": "gangwright-agent", "mountPath": "/gangwright"}
    assert bring["volumeMounts"] == [mount]
    assert {**mount, "readOnly": True} in pod["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "data", "mountPath": "/data"} in pod["spec"]["containers"][0]["volumeMounts"]


SEEN = """
import runpy, sys
before = set(sys.modules)
module, sys.argv = sys.argv[1], sys.argv[1:]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as ended:
    assert not ended.code, ended.code
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names))
"""


def test_bringing_the_agent_imports_nothing_of_weight(tmp_path):
    """What the init container runs writes the archive, with the standard library and the agent's package alone."""
    python, dash_m, module, _ = INSTALL
    place = tmp_path / "agent.pyz"
    done = subprocess.run(
        [sys.executable, "-c", SEEN, module, str(place)], capture_output=True, text=True, check=True
    )

    assert (python, dash_m) == ("python", "-m")
    assert set(done.stdout.split()) == {"scheduler", "scheduler.elastic", "scheduler.elastic.agent"}
    assert zipfile.is_zipfile(place)


@pytest.mark.parametrize(
    ("words", "told"), [((), "usage"), (("a", "b"), "usage"), (("{}/no/agent.pyz",), "no/agent")]
)
def test_an_agent_that_cannot_be_brought(words, told, tmp_path):
    """It says why, in a line, with code 2."""
    given = [word.format(tmp_path) for word in words]
    done = subprocess.run(
        [sys.executable, *INSTALL[1:3], *given], capture_output=True, text=True, check=False
    )

    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert told in done.stderr


def test_the_token_is_for_the_rendezvous_alone():
    """A projected token of our audience, and none for the API server unless the template wants one."""
    pod = made()
    (token,) = [v for v in pod["spec"]["volumes"] if v["name"] == "gangwright-token"]
    (source,) = token["projected"]["sources"]

    assert source["serviceAccountToken"]["audience"] == "gangwright-elastic"
    assert source["serviceAccountToken"]["expirationSeconds"] == 3600
    assert environment(pod)["GANGWRIGHT_TOKEN_FILE"] == f"{TOKEN_FOLDER}/token"
    assert pod["spec"]["automountServiceAccountToken"] is False
    wanted = made(changed(automountServiceAccountToken=True))
    assert wanted["spec"]["automountServiceAccountToken"] is True


def test_the_environment_says_who_and_where():
    """Everything that the agent reads is there, before the template's own."""
    pod = made(msgspec.structs.replace(SPEC, checkpoint=Checkpoint(path="/ckpt")))
    names = [own["name"] for own in pod["spec"]["containers"][0]["env"]]
    values = environment(pod)

    assert values["GANGWRIGHT_MASTER"] == KIT.master
    assert values["GANGWRIGHT_JOB"] == "team/train"
    assert values["GANGWRIGHT_JOB_UID"] == OWNER.uid
    assert values["GANGWRIGHT_CA"] == "PEM"
    assert values["GANGWRIGHT_GRACE"] == "60"
    assert values["GANGWRIGHT_CHECKPOINT"] == "/ckpt"
    assert float(values["GANGWRIGHT_CHECKPOINT_EVERY"]) > 0
    assert values["GANGWRIGHT_GLOO_TIMEOUT"] == "10"
    assert {"GANGWRIGHT_POD", "GANGWRIGHT_POD_UID", "GANGWRIGHT_POD_IP", "GANGWRIGHT_NODE"} < set(names)
    assert names[-1] == "LR"
    assert len(names) == len(set(names))


def test_a_template_chooses_but_does_not_pretend():
    """It may set the interface; who the worker is and where the master is, it may not."""
    spec = copy.deepcopy(TEMPLATE)
    spec["spec"]["containers"][0]["env"] = [
        {"name": "GANGWRIGHT_IFACE", "value": "ib0"},
        {"name": "GANGWRIGHT_POD_UID", "value": "forged"},
        {"name": "GANGWRIGHT_MASTER", "value": "https://elsewhere:1"},
    ]
    pod = made(msgspec.structs.replace(SPEC, template=spec))

    assert environment(pod)["GANGWRIGHT_IFACE"] == "ib0"
    assert environment(pod)["GANGWRIGHT_POD_UID"] is None
    assert environment(pod)["GANGWRIGHT_MASTER"] == KIT.master


def test_the_templates_own_grace_counts():
    """Kubelet's and the agent's figures are the same."""
    pod = made(changed(terminationGracePeriodSeconds=7))

    assert pod["spec"]["terminationGracePeriodSeconds"] == 7
    assert environment(pod)["GANGWRIGHT_GRACE"] == "7"


def test_nodes_to_avoid():
    """The scheduler reads a requirement for each node, so that the worker goes to none of them."""
    pod = msgspec.convert(made(avoid=("n1", "n2")), api.Pod)
    (term,) = affinity.terms(pod.spec.affinity.node_affinity.required)

    assert term.fields == tuple(
        Requirement("metadata.name", Operator.NOT_IN, (name,)) for name in ("n1", "n2")
    )


def test_nodes_to_avoid_beside_the_templates_own_terms():
    """Every alternative excludes them, one without conditions still matches nothing, other affinity stays."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    own = {
        "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {}]}},
        "podAffinity": {"x": 1},
    }
    found = made(changed(affinity=own), avoid=("n1",))["spec"]["affinity"]
    first, second = found["nodeAffinity"][required]["nodeSelectorTerms"]

    assert first["matchExpressions"] == [zone]
    assert first["matchFields"][0]["values"] == ["n1"]
    assert second == {}
    assert found["podAffinity"] == {"x": 1}


def test_the_template_is_left_as_it_was():
    """Making a pod changes nothing of the job."""
    before = copy.deepcopy(TEMPLATE)

    made(role=SURPLUS, avoid=("n",))

    assert before == TEMPLATE


def test_names_of_ours_are_ours():
    """Volumes and init containers of our names in a template give way to ours."""
    pod = made(
        changed(
            volumes=[{"name": "gangwright-token", "emptyDir": {}}],
            initContainers=[{"name": "gangwright-agent", "image": "evil"}],
        )
    )

    assert [v for v in pod["spec"]["volumes"] if v["name"] == "gangwright-token" and "emptyDir" in v] == []
    assert [c["image"] for c in pod["spec"]["initContainers"]] == [IMAGE]


def test_a_name_says_job_and_number():
    """Job, number, chance."""
    assert worker_name("train", 7, "x2x4z") == "train-7-x2x4z"


def test_a_good_job_has_no_problem():
    """Nothing is said of a template that can train."""
    assert problems(OWNER, SPEC) == ()


@pytest.mark.parametrize("command", [None, [], "python train.py", [1]])
def test_the_agent_must_know_what_to_start(command):
    """Without a command the image's own would be lost, which nobody could see from outside."""
    container = {"name": "main", "image": "tf", "command": command}
    (problem,) = problems(OWNER, changed(containers=[container]))

    assert problem.field == "spec.template.spec.containers[0].command"
    assert problem.value == ("none" if command is None else repr(command))


OURS = (
    *(
        "surplus",
        "seat",
        "plan",
        "gang",
        "min-members",
        "members",
        "pin",
        "elastic-role",
        "elastic-job",
    ),
    *("elastic-number", "elastic-avoids", "preemption", "timeout", "anything-to-come"),
)


@pytest.mark.parametrize("kind", ["labels", "annotations"])
@pytest.mark.parametrize("key", OURS)
def test_what_is_ours_no_template_writes(kind, key):
    """Each such label and annotation is a problem with field, value and remedy, and comes into no pod."""
    written = {f"gangwright.io/{key}": "true", "gangwright.iodine": "kept", "sub.gangwright.io/x": "kept"}
    spec = msgspec.structs.replace(SPEC, template={**TEMPLATE, "metadata": {kind: written}})
    (problem,) = problems(OWNER, spec)

    assert problem.field == f"spec.template.metadata.{kind}[gangwright.io/{key}]"
    assert problem.value == "'true'"
    assert "remove it" in problem.remedy
    plain = made()["metadata"]
    meta = made(spec)["metadata"]
    assert meta[kind].items() >= {"gangwright.iodine": "kept", "sub.gangwright.io/x": "kept"}.items()
    ours = {name: value for name, value in meta[kind].items() if name.startswith("gangwright.io/")}
    assert ours == {name: value for name, value in plain[kind].items() if name.startswith("gangwright.io/")}


@pytest.mark.parametrize("grace", [0, -1, 1.5, "30", True])
def test_a_worker_has_time_to_leave(grace):
    """Without a second of it no agent starts, and every worker would fail for a reason that stands in its log alone."""
    (problem,) = problems(OWNER, changed(terminationGracePeriodSeconds=grace))

    assert problem.field == "spec.template.spec.terminationGracePeriodSeconds"
    assert (problem.value, "at least 1" in problem.remedy) == (repr(grace), True)
    assert problems(OWNER, changed(terminationGracePeriodSeconds=1)) == ()


def test_a_name_that_is_no_label():
    """It is a label of the workers, and labels are shorter than names."""
    (problem,) = problems(Owner("team", "x" * (LONGEST_JOB + 1), "u"), SPEC)

    assert problem.field == "metadata.name"


@pytest.mark.parametrize(
    "fields",
    [
        {"containers": ["main"]},
        {"containers": [{"name": "m", "command": ["x"], "env": [{"value": "nameless"}]}]},
        {"volumes": 3, "containers": [{"name": "m", "command": ["x"]}]},
        {"affinity": "near"},
        {"containers": [{"name": "m", "command": ["x"], "env": "A=b"}]},
    ],
)
def test_a_template_that_is_none(fields):
    """It is a problem of the field, not an error."""
    (problem,) = problems(OWNER, changed(**fields))

    assert problem.field.startswith("spec.template")


@pytest.mark.parametrize("metadata", [3, {"labels": 3}, {"annotations": ["gangwright.io/seat"]}])
def test_metadata_that_is_none(metadata):
    """What is no metadata at all is a problem of the template too, and breaks nothing."""
    (problem,) = problems(OWNER, msgspec.structs.replace(SPEC, template={**TEMPLATE, "metadata": metadata}))

    assert problem.field == "spec.template"
