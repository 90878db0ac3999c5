"""The elastic master's manifests, as documents: they say what the code says, and grant no more than it needs."""

import msgspec
import pytest
import yaml

from scheduler.elastic.controller import pod_template
from scheduler.elastic.job.spec import Batch, Checkpoint, Spec, Stage
from scheduler.elastic.job.status import Phase, Status, WorkerPhase
from scheduler.elastic.job.validation import decode_spec
from scheduler.elastic.sizing import policy_parameters
from scheduler.settings import load
from tests.manifests.support.rendering import EXTENDER_CONFIG, MANIFESTS, named, of_kind, rendered
from tests.manifests.test_pod import amount

ELASTIC = "elastic"
SAMPLES = sorted((MANIFESTS / "elastic" / "samples").glob("*.yaml"))
NAMESPACE = "gangwright-system"


def schema():
    (version,) = named(ELASTIC, "CustomResourceDefinition", "elasticjobs.gangwright.io")["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]


def properties(*names):
    place = schema()
    for name in names:
        place = place[name]
        place = place.get("items", place).get("properties", place)
    return place


def spelled(kind):
    """JSON names of a struct's fields."""
    return {one.encode_name for one in msgspec.structs.fields(kind)}


# --- the definition says what the decoder reads ---


def test_spec():
    """Every field of the spec that the master reads is in the schema, and no other."""
    assert set(properties("spec")) == spelled(Spec) - {"policy", "parameters"} | {"sizing"}
    assert set(properties("spec", "schedule")) == spelled(Stage)
    assert set(properties("spec", "batch")) == spelled(Batch)
    assert set(properties("spec", "checkpoint")) == spelled(Checkpoint)


def test_parameters():
    """The schema has the parameters of all policies, with their bounds, and its policies are ours."""
    said = properties("spec", "sizing", "parameters")
    known = {
        one.encode_name: one.type
        for kind in policy_parameters.BY_NAME.values()
        for one in msgspec.structs.fields(kind)
    }

    assert set(said) == set(known)
    assert properties("spec", "sizing")["policy"]["enum"] == list(policy_parameters.BY_NAME)
    for name, kind in known.items():
        (meta,) = [one for one in kind.__metadata__ if isinstance(one, msgspec.Meta)]
        least = meta.ge if meta.gt is None else meta.gt
        assert said[name].get("minimum") == least, name
        assert said[name].get("maximum") == meta.le, name
        assert said[name].get("exclusiveMinimum", False) == (meta.gt is not None), name


@pytest.mark.parametrize("policy", policy_parameters.BY_NAME)
def test_defaults_are_told(policy):
    """The description of every parameter ends with the default that it has, and begins with the policies that take
    it.
    """
    made = policy_parameters.BY_NAME[policy]()
    for one in msgspec.structs.fields(policy_parameters.BY_NAME[policy]):
        text = properties("spec", "sizing", "parameters")[one.encode_name]["description"]
        whose, _, _ = text.partition(".")
        assert policy in whose or whose == "Every policy", one.name
        if one.name not in {"points", "hold"}:
            assert text.endswith(f"Defaults to {getattr(made, one.name):g}."), one.name


def test_status():
    """Every field of the status is in the schema at every depth: what is not would vanish at the API server in
    silence.
    """
    assert _unsaid(Status, schema()["status"], "status") == []
    assert set(properties("status")["phase"]["enum"]) == {phase.value for phase in Phase}
    assert set(properties("status", "members")["phase"]["enum"]) == {phase.value for phase in WorkerPhase}


def _unsaid(kind, place, path):
    """Fields of a struct that the schema does not have."""
    said = place.get("items", place).get("properties", {})
    missing = []
    for one in msgspec.structs.fields(kind):
        inner = _struct(one.type)
        if one.encode_name not in said:
            missing.append(f"{path}.{one.encode_name}")
        elif inner is not None:
            missing += _unsaid(inner, said[one.encode_name], f"{path}.{one.encode_name}")
    return missing


def _struct(kind):
    """The struct inside of an optional, a tuple, or itself."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for part in getattr(kind, "__args__", ()) if (found := _struct(part))), None)


def test_nothing_is_kept_unread():
    """Only templates, and a spec as it was accepted, are kept as they are; everywhere else a misspelt field is
    refused.
    """
    assert set(_open(schema()["spec"], "spec")) == {
        "spec.template",
        "spec.template.metadata",
        "spec.template.spec",
        "spec.template.spec.containers",
    }
    assert list(_open(schema()["status"], "status")) == ["status.accepted", "status.template"]


def _open(place, path):
    inner = place.get("items", place)
    if inner.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, below in inner.get("properties", {}).items():
        yield from _open(below, f"{path}.{name}")


# --- samples ---


@pytest.mark.parametrize("place", SAMPLES, ids=lambda place: place.stem)
def test_samples(place):
    """The master reads every sample without complaint, and makes a worker of it."""
    job = yaml.safe_load(place.read_text(encoding="utf-8"))
    spec, problems = decode_spec(job["spec"])

    assert problems == ()
    assert job["metadata"]["name"] == place.stem
    assert pod_template.problems(pod_template.Owner("team", place.stem, "u"), spec) == ()


def test_samples_show_every_policy():
    """Each policy has a sample."""
    specs = [decode_spec(yaml.safe_load(place.read_text(encoding="utf-8"))["spec"])[0] for place in SAMPLES]

    assert {spec.policy for spec in specs} == set(policy_parameters.BY_NAME)


# --- the Deployment and the settings ---


@pytest.fixture
def ours():
    """The settings as the Pod gets them."""
    told = {one["name"]: one["value"] for one in container()["env"] if "value" in one}
    return load(None, environ=told | {"POD_NAME": "gangwright-elastic-0"})


def container():
    (one,) = named(ELASTIC, "Deployment", "gangwright-elastic")["spec"]["template"]["spec"]["containers"]
    return one


def test_ports(ours):
    """Containers, Services and NetworkPolicy speak of the ports that we listen on."""
    ports = {one["name"]: one["containerPort"] for one in container()["ports"]}
    served = {one["metadata"]["name"]: one["spec"]["ports"][0]["port"] for one in of_kind(ELASTIC, "Service")}
    (rule,) = named(ELASTIC, "NetworkPolicy", "gangwright-elastic")["spec"]["ingress"]

    assert ports == {"rendezvous": ours.rendezvous.port, "metrics": ours.probes.port}
    assert served == {
        "gangwright-elastic": ours.rendezvous.port,
        "gangwright-elastic-metrics": ours.probes.port,
    }
    assert {one["port"] for one in rule["ports"]} == set(ports.values())


def test_the_name_that_workers_are_told(ours):
    """Workers are told the Service's name in full, and the certificate is good for it."""
    meta = named(ELASTIC, "Service", "gangwright-elastic")["metadata"]

    assert ours.rendezvous.names[0] == f"{meta['name']}.{meta['namespace']}.svc"


def test_what_workers_lay_down_leaves_room(ours):
    """The values of all jobs take a quarter of the master's memory at most, which is guaranteed."""
    resources = container()["resources"]

    assert resources["limits"]["memory"] == resources["requests"]["memory"]
    assert ours.rendezvous.values_limit <= amount(resources["limits"]["memory"]) / 4


def test_one_image(ours):
    """Workers get their agent from the image that the master runs."""
    assert ours.workers.image == container()["image"]


def test_names_of_the_role(ours):
    """The role names the Lease and the Secret that the settings name, in their namespace."""
    role = named(ELASTIC, "Role", "gangwright-elastic")
    by_name = {
        rule["resources"][0]: rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule
    }

    assert role["metadata"]["namespace"] == ours.elastic.lease_namespace
    assert by_name == {"leases": [ours.elastic.lease_name], "secrets": [ours.rendezvous.secret]}


def test_names_of_the_policies(ours):
    """What the master makes at home is named in its policies as in its role."""
    at_home = ours.elastic.lease_namespace
    for policy, own in (("own-secret", ours.rendezvous.secret), ("own-lease", ours.elastic.lease_name)):
        (judged,) = named(ELASTIC, "ValidatingAdmissionPolicy", f"gangwright-elastic-{policy}")["spec"][
            "validations"
        ]
        assert f"request.namespace == '{at_home}'" in judged["expression"]
        assert f"== '{own}'" in judged["expression"]
        assert f"{own} in {at_home}" in judged["message"]


def test_every_policy_is_bound():
    """A policy without a binding that denies would hold nothing."""
    bound = {
        one["spec"]["policyName"]: one["spec"]["validationActions"]
        for one in of_kind(ELASTIC, "ValidatingAdmissionPolicyBinding")
    }
    policies = [one["metadata"]["name"] for one in of_kind(ELASTIC, "ValidatingAdmissionPolicy")]

    assert bound == {name: ["Deny"] for name in policies}


def test_policies_know_the_version():
    """The owner that two policies demand is what the master writes, of the version that is served."""
    (version,) = named(ELASTIC, "CustomResourceDefinition", "elasticjobs.gangwright.io")["spec"]["versions"]
    written = pod_template.reference(pod_template.Owner("team", "train", "u"))
    assert written["apiVersion"] == f"gangwright.io/{version['name']}"
    for name in ("own-workers", "own-network"):
        variables = named(ELASTIC, "ValidatingAdmissionPolicy", f"gangwright-elastic-{name}")["spec"][
            "variables"
        ]
        (owners,) = [one["expression"] for one in variables if one["name"] == "owners"]
        assert f"o.apiVersion == '{written['apiVersion']}'" in owners


def test_surplus_is_below_everybody():
    """The class of surplus workers is the default of the spec, below every ordinary pod, and preempts nobody."""
    surplus = named(ELASTIC, "PriorityClass", Spec().surplus_priority_class_name)

    assert surplus["value"] < -10
    assert surplus["preemptionPolicy"] == "Never"
    assert properties("spec")["surplusPriorityClassName"]["default"] == surplus["metadata"]["name"]


def test_the_scheduler_is_left_alone():
    """Nothing selects the pods of both programs: each Service and policy of either finds its own."""
    labels = named(ELASTIC, "Deployment", "gangwright-elastic")["spec"]["template"]["metadata"]["labels"]
    others = named("base", "Deployment", "gangwright")["spec"]["selector"]["matchLabels"]

    assert not others.items() <= labels.items()


# --- rights ---


def rights(role):
    """Each (group, resource, verb) that the role grants."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_cluster_wide_rights():
    """What is granted for every namespace, and for none, to the letter."""
    jobs = rights(named(ELASTIC, "ClusterRole", "gangwright-elastic-jobs"))
    cluster = rights(named(ELASTIC, "ClusterRole", "gangwright-elastic"))

    assert jobs == {
        *(("gangwright.io", "elasticjobs", verb) for verb in ("get", "list", "watch")),
        ("gangwright.io", "elasticjobs/status", "patch"),
        ("gangwright.io", "elasticjobs/finalizers", "update"),
        *(("", "pods", verb) for verb in ("list", "watch", "create", "patch", "delete")),
        *(("networking.k8s.io", "networkpolicies", verb) for verb in ("create", "patch")),
        ("events.k8s.io", "events", "create"),
    }
    assert cluster == {
        ("", "nodes", "list"),
        ("", "nodes", "watch"),
        ("authentication.k8s.io", "tokenreviews", "create"),
    }


def test_no_wildcard():
    """No role says `*`, none is about rights or tokens of others, and Secrets are in our own namespace, by name."""
    for role in (*of_kind(ELASTIC, "ClusterRole"), *of_kind(ELASTIC, "Role")):
        granted = rights(role)
        assert not [right for right in granted if "*" in right]
        assert not {right[1] for right in granted} & {"roles", "clusterroles", "serviceaccounts/token"}
        assert not {right[2] for right in granted} & {"impersonate", "bind", "escalate"}
        if role["kind"] == "ClusterRole":
            assert "secrets" not in {right[1] for right in granted}
    for rule in named(ELASTIC, "Role", "gangwright-elastic")["rules"]:
        assert rule["verbs"] == ["create"] or rule["resourceNames"]


def test_everything_is_bound_to_the_master_alone():
    """Every role but those for people is bound, and to our account only."""
    bound = {}
    for binding in (*of_kind(ELASTIC, "ClusterRoleBinding"), *of_kind(ELASTIC, "RoleBinding")):
        (subject,) = binding["subjects"]
        bound[binding["roleRef"]["kind"], binding["roleRef"]["name"]] = (
            subject["namespace"],
            subject["name"],
        )

    assert bound == {
        ("ClusterRole", "gangwright-elastic-jobs"): (NAMESPACE, "gangwright-elastic"),
        ("ClusterRole", "gangwright-elastic"): (NAMESPACE, "gangwright-elastic"),
        ("Role", "gangwright-elastic"): (NAMESPACE, "gangwright-elastic"),
    }


def test_roles_for_people():
    """Who may edit a namespace may edit its ElasticJobs, who may view it may look; the status is nobody's but the
    master's.
    """
    edit = named(ELASTIC, "ClusterRole", "gangwright-elastic-edit")
    view = named(ELASTIC, "ClusterRole", "gangwright-elastic-view")
    prefix = "rbac.authorization.k8s.io/aggregate-to-"

    assert {label.removeprefix(prefix) for label in edit["metadata"]["labels"] if prefix in label} == {
        "admin",
        "edit",
    }
    assert {label.removeprefix(prefix) for label in view["metadata"]["labels"] if prefix in label} == {"view"}
    assert {verb for _, _, verb in rights(view)} == {"get", "list", "watch"}
    assert {verb for _, part, verb in rights(edit) if part == "elasticjobs/status"} == {"get"}


def test_policies_know_the_account():
    """The admission policies name our account as the API server does."""
    account = f"'system:serviceaccount:{NAMESPACE}:gangwright-elastic'"
    policies = of_kind(ELASTIC, "ValidatingAdmissionPolicy")

    assert policies
    for policy in policies:
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"].endswith(account)


def test_the_overlay_is_both():
    """The overlay with the elastic master holds all that both install, once."""
    both = [(one["kind"], one["metadata"]["name"]) for one in rendered("overlays/with-elastic")]
    parts = [
        (one["kind"], one["metadata"]["name"])
        for directory in ("overlays/default", ELASTIC)
        for one in rendered(directory)
    ]

    assert sorted(both) == sorted(parts)
    assert len(set(both)) == len(both)


def test_one_file_of_settings():
    """Beside the scheduler the master reads the same settings file, the ConfigMap's newest: a change starts it anew."""
    overlay = "overlays/with-elastic"
    (settings,) = [
        one["metadata"]["name"]
        for one in of_kind(overlay, "ConfigMap")
        if one["metadata"]["name"].startswith("gangwright-settings")
    ]
    spec = named(overlay, "Deployment", "gangwright-elastic")["spec"]["template"]["spec"]
    (own,) = spec["containers"]
    (mount,) = own["volumeMounts"]

    assert spec["volumes"] == [{"name": mount["name"], "configMap": {"name": settings}}]
    assert own["args"] == ["elastic", f"--settings={mount['mountPath']}/settings.yaml"]
    assert mount["readOnly"]
    assert {key: value for key, value in own.items() if key not in {"args", "volumeMounts"}} == {
        key: value for key, value in container().items() if key != "args"
    }


def test_the_settings_file_is_the_masters_too(ours):
    """What the file says is what the master runs by without it, so that one who begins to read it changes nothing."""
    told = {one["name"]: one["value"] for one in container()["env"] if "value" in one}
    both = told | {"POD_NAME": "gangwright-elastic-0"}

    assert load(EXTENDER_CONFIG / "settings.yaml", environ=both) == ours
