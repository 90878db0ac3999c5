"""Settings: read strictly, with the place and the remedy of every mistake."""

import dataclasses
import inspect
import socket
from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler import settings_loader
from scheduler.errors import SettingsError
from scheduler.model.cluster import Level
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import Pin, Strategy
from scheduler.settings import NAMES, SECTIONS, Settings
from scheduler.settings_loader import load
from scheduler.settings_reader import Removed, camel

SHIPPED = Path(__file__).parents[1] / "extender_config" / "settings.yaml"


@pytest.fixture
def written(tmp_path):
    """Write a settings file and load it."""

    def write(text, environ=None, flags=None):
        file = tmp_path / "settings.yaml"
        file.write_text(text, encoding="utf-8")
        return load(file, environ=environ or {}, flags=flags)

    return write


def with_hostname(settings: Settings, hostname: str) -> Settings:
    return dataclasses.replace(settings, lease=dataclasses.replace(settings.lease, hostname=hostname))


def test_the_shipped_file_is_the_defaults():
    """What the file says is what holds without it."""
    assert load(SHIPPED, environ={}) == load(environ={}) == with_hostname(Settings(), socket.gethostname())


def test_the_shipped_file_names_every_setting():
    """No setting is hidden, and none of the file's is unknown."""
    content = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))

    named = {f"{section}.{name}" for section, body in content.items() for name in body}

    assert named == set(NAMES.values())


def test_the_core_sees_the_defaults_of_the_policy():
    """There is one place for each default that the core decides by."""
    assert Settings().policy == Policy()


def test_every_field_of_the_policy_is_a_setting(written):
    """What the file says reaches the core."""
    policy = written(
        """
        cluster: {schedulerNames: [a, b], levels: [{name: row, label: example.com/row}]}
        placement: {strategy: spread, level: row, required: true}
        gangs:
          pin: soft
          timeout: 1m
          startTimeout: 90s
          backoff: 1s
          backoffLimit: 10s
          scoreHold: 1s
          pinGrace: 2s
          pinLimit: 3s
          barred: 4s
          brokenPinsUntilSoft: 5
          evictionsPerGang: 6
          outcomeLimit: 7s
          announceEvery: 8s
          largestGang: 9
        queue:
          order: las
          backfill: free
          ageLimit: 10s
          ageFactor: 2.5
          lasQuantum: 11s
          defaultRuntime: 12s
          preemption: false
          reclaim: lower-priority
          evictionsPerNamespace: 13
          preemptionCooldown: 14s
          shares: {research: {guaranteed: {nvidia.com/gpu: 16, cpu: 500m}, ceiling: {memory: 1Gi}, weight: 2}}
        """
    ).policy

    assert policy == Policy(
        scheduler_names=frozenset({"a", "b"}),
        levels=(Level("row", "example.com/row"),),
        strategy=Strategy.SPREAD,
        level="row",
        required=True,
        pin=Pin.SOFT,
        timeout=60.0,
        start_timeout=90.0,
        backoff=1.0,
        backoff_limit=10.0,
        score_hold=1.0,
        pin_grace=2.0,
        pin_limit=3.0,
        barred=4.0,
        broken_pins_until_soft=5,
        evictions_per_gang=6,
        outcome_limit=7.0,
        announce_every=8.0,
        largest_gang=9,
        order=Order.LAS,
        backfill=Backfill.FREE,
        age_limit=10,
        age_factor=2.5,
        las_quantum=11,
        default_runtime=12,
        preemption=False,
        reclaim=Reclaim.LOWER,
        evictions_per_namespace=13,
        preemption_cooldown=14,
        shares={"research": Share((("cpu", 500), ("nvidia.com/gpu", 16)), (("memory", 1073741824),), 2.0)},
    )
    defaults = Policy()
    assert all(
        getattr(policy, field.name) != getattr(defaults, field.name) for field in dataclasses.fields(Policy)
    )


def test_flags_beat_the_environment_and_the_environment_the_file(written):
    """Each layer covers the one below it, setting by setting."""
    settings = written(
        "verbs: {port: 1000, host: 127.0.0.2, connections: 10}",
        {"GANGWRIGHT_VERBS__PORT": "2000", "GANGWRIGHT_VERBS__CONNECTIONS": "20"},
        {"verbs.port": "3000"},
    )

    assert settings.verbs.port == 3000
    assert settings.verbs.connections == 20
    assert settings.verbs.host == "127.0.0.2"


def test_the_environment_is_written_as_yaml():
    """Lists and durations read as in the file; an empty value is an empty text."""
    settings = load(
        environ={
            "GANGWRIGHT_CLUSTER__SCHEDULER_NAMES": "[a, b]",
            "GANGWRIGHT_GANGS__TIMEOUT": "90s",
            "GANGWRIGHT_API__KUBECONFIG": "",
        }
    )

    assert settings.cluster.scheduler_names == ("a", "b")
    assert settings.gangs.timeout == 90
    assert settings.api.kubeconfig == ""


def test_what_kubernetes_sets_for_a_service_is_not_ours():
    """Variables of a Service whose name begins like ours have no double underscore, and are left alone."""
    environ = {"GANGWRIGHT_PORT": "tcp://10.0.0.1:80", "GANGWRIGHT_VERBS_PORT": "tcp://10.0.0.1:80"}

    assert load(environ=environ).verbs == Settings().verbs


def test_the_host_name_is_that_of_the_pod():
    """Inside a Pod kube-scheduler's identity begins with the Pod's name."""
    assert load(environ={"POD_NAME": "gangwright-5"}).lease.hostname == "gangwright-5"
    assert load(environ={"POD_NAME": "x", "GANGWRIGHT_LEASE__HOSTNAME": "y"}).lease.hostname == "y"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("1m30s", 90), ("2h", 7200), ("1.5m", 90), ("0.1s", 0.1)],
)
def test_durations_have_units(written, text, seconds):
    """Every unit counts, and they add up."""
    assert written(f"gangs: {{backoff: {text}, backoffLimit: 24h}}").gangs.backoff == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1Mi", 2**20), ("64Mi", 2**26), ("2M", 2_000_000), ("1e7", 10**7)]
)
def test_sizes_are_quantities(written, text, size):
    """The words of Kubernetes for amounts."""
    assert written(f"verbs: {{bodyLimit: {text}}}").verbs.body_limit == size


MISTAKES = [
    (
        "verbs:\n  prot: 1",
        r"verbs\.prot \(settings\.yaml, line 2\) = '1': no such setting; did you mean verbs\.port",
    ),
    ("verb:\n  port: 1", r"verb\.port \(settings\.yaml, line 2\).*no such setting; did you mean verbs\.port"),
    (
        "verbs:\n\n  port: 99999",
        r"verbs\.port \(settings\.yaml, line 3\) = '99999': must be between 0 and 65535",
    ),
    ("verbs:\n  port: ten", r"line 2\) = 'ten': must be a whole number"),
    ("verbs:\n  port: '10'", r"must be a whole number"),
    ("verbs:\n  port: 1.5", r"must be a whole number"),
    ("verbs:\n  port: 0x10", r"must be a whole number"),
    ("verbs:\n  port: [1]", r"must be a single value"),
    ("verbs:\n  port:", r"must be a whole number"),
    ("verbs:\n  port: 1\n  port: 2", r"line 3\).*stands here twice"),
    ("verbs: 5", r"verbs \(settings\.yaml, line 1\) = '5': must be a mapping"),
    ("- verbs", r"must be a mapping"),
    ("verbs:\n  httpTimeout: 2", r"must be a duration with its unit, such as 500ms"),
    ("verbs:\n  httpTimeout: 2 s", r"must be a duration"),
    ("verbs:\n  httpTimeout: -2s", r"must be a duration"),
    ("verbs:\n  httpTimeout: 2d", r"must be a duration"),
    ("verbs:\n  httpTimeout: 1h", r"must be between 0\.1s and 20s"),
    ("verbs:\n  keepAlive: 90s", r"must be between 100s"),
    ("verbs:\n  bodyLimit: 64MB", r"must be an amount of bytes"),
    ("verbs:\n  bodyLimit: 1Ki", r"must be between"),
    ("placement:\n  required: yes", r"= 'yes': must be true or false"),
    ("placement:\n  required: 'true'", r"must be true or false"),
    ("placement:\n  strategy: packed", r"must be one of pack, spread, cosine"),
    ("placement:\n  level: 5", r"is read as a int: put it in quotes"),
    ("placement:\n  level: row", r"placement\.level = 'row': must be the name of one of cluster\.levels"),
    ("cluster:\n  schedulerNames: []", r"must have 1 to 64 items"),
    ("cluster:\n  schedulerNames: gangwright", r"must be a list"),
    ("cluster:\n  schedulerNames:\n  - a\n  - a", r"line 4\) = 'a': stands in the list twice"),
    ("cluster:\n  schedulerNames: [A]", r"lower-case"),
    ("cluster:\n  levels:\n  - name: rack", r"line 3\).*must have name and label"),
    ("cluster:\n  levels:\n  - {name: rack, label: x, key: y}", r"'key' is unknown here"),
    ("cluster:\n  levels:\n  - {name: rack, label: 'a b'}", r"must be a label key"),
    (
        "cluster:\n  levels: [{name: rack, label: a}, {name: rack, label: b}]",
        r"cluster\.levels.*two levels must not have one name",
    ),
    (
        "cluster:\n  levels: [{name: rack, label: a}, {name: row, label: a}]",
        r"two levels must not have one label",
    ),
    ("gangs:\n  backoff: 10m", r"gangs\.backoff.*must not be longer than gangs\.backoffLimit"),
    ("gangs:\n  pinGrace: 10m", r"must not be longer than gangs\.pinLimit"),
    ("gangs:\n  largestGang: 5000", r"must be between 1 and 4096"),
    ("probes:\n  port: 10270", r"must differ from verbs\.port"),
    ("verbs:\n  cert: a.pem", r"verbs\.cert and verbs\.key go together"),
    ("verbs:\n  clientCa: a.pem", r"needs verbs\.cert and verbs\.key"),
    ("verbs:\n  clientNames: [a]", r"needs verbs\.clientCa"),
    ("verbs:\n  host: 0.0.0.0", r"verbs\.host = '0\.0\.0\.0'.*listen on 127\.0\.0\.1, or set"),
    ("verbs:\n  host: ''", r"verbs\.host = ''.*listen on 127\.0\.0\.1, or set"),
    ("verbs: {host: 0.0.0.0, cert: a, key: b}", r"verbs\.clientCa"),
    ("log:\n  level: loud", r"must be one of debug, info, warning, error"),
    ("verbs:\n  port: [1", r"settings\.yaml, line \d.*must be YAML"),
    ("verbs:\n\tport: 1", r"settings\.yaml, line 2.*must be YAML"),
    ("a: 1\n---\nb: 2", r"must be YAML"),
    ("[" * 5000, r"must be YAML"),
    ("<<: {verbs: 1}", r"must be a mapping|no such setting"),
    ("? [a]\n: 1", r"must be a single value"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[text[:40] for text, _ in MISTAKES])
def test_a_mistake_is_told_with_its_place_and_remedy(written, text, said):
    """Nothing wrong is ever taken for something else, or ignored."""
    with pytest.raises(SettingsError, match=said):
        written(text)


@pytest.mark.parametrize("how", ["file", "environment", "flag"])
@pytest.mark.parametrize("row", settings_loader.REMOVED, ids=lambda row: row.setting)
def test_what_was_removed_is_read_with_a_warning_wherever_it_is_given(tmp_path, row, how):
    """It stops no start: another word is used, or the default, and the place and the remedy are told."""
    word = row.word or "suspend"
    section, name = row.setting.split(".")
    file = tmp_path / "settings.yaml"
    file.write_text(f"{section}:\n  {name}: {word}" if how == "file" else "", encoding="utf-8")
    environ = {row.variable: word} if how == "environment" else {}
    flags = {row.setting: word} if how == "flag" else {}
    told = []

    found = load(file, environ=environ, flags=flags, warn=told.append)

    assert found == load(environ={}, flags={row.setting: row.instead} if row.instead else {})
    place = {"file": "settings.yaml, line 2", "environment": row.variable, "flag": "flag"}[how]
    assert told == [f"{row.setting} ({place}) = {word!r}: {row.remedy}"]


@pytest.mark.parametrize("value", ["[x]", "{a: 1}", "''"])
def test_a_removed_setting_is_left_out_whatever_its_value(monkeypatch, value):
    """A setting that is gone is no unknown one; it changes nothing."""
    gone = Removed("queue.oldOrder", "it has no effect any more; remove it")
    monkeypatch.setattr(settings_loader, "REMOVED", (gone,))
    told = []

    assert load(environ={}, flags={gone.setting: value}, warn=told.append) == load(environ={})
    (said,) = told
    assert said.startswith("queue.oldOrder (flag) = ")
    assert said.endswith(gone.remedy)


def test_other_words_of_the_setting_stay():
    """What was not removed is read as it is, without a warning."""
    told = []

    assert (
        load(environ={}, flags={"placement.strategy": "spread"}, warn=told.append).placement.strategy
        == "spread"
    )
    assert told == []


@pytest.mark.parametrize(
    "text", ["log: {level: &a [*a]}", "cluster: {schedulerNames: &a [*a]}", "a: &a [*a]"], ids=str
)
def test_a_list_that_holds_itself_is_a_mistake(written, text):
    """YAML can say such a list; it is told as every other value that is wrong."""
    with pytest.raises(SettingsError, match="line 1"):
        written(text)


@pytest.mark.parametrize(
    ("environ", "flags", "said"),
    [
        ({"GANGWRIGHT_VERBS__PROT": "1"}, {}, r"GANGWRIGHT_VERBS__PROT = '1'.*mean GANGWRIGHT_VERBS__PORT"),
        ({"GANGWRIGHT_VERBS__PORT": "x"}, {}, r"verbs\.port \(GANGWRIGHT_VERBS__PORT\) = 'x'"),
        ({"GANGWRIGHT_VERBS__PORT": "["}, {}, r"GANGWRIGHT_VERBS__PORT.*must be YAML"),
        ({}, {"verbs.prot": "1"}, r"verbs\.prot \(flag\).*no such setting"),
        ({}, {"verbs.port": "x"}, r"verbs\.port \(flag\) = 'x': must be a whole number"),
    ],
)
def test_the_environment_and_flags_are_as_strict(environ, flags, said):
    """A variable or flag that nobody reads is a mistake too."""
    with pytest.raises(SettingsError, match=said):
        load(environ=environ, flags=flags)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    """A name that is wrong, a directory, a file of another kind."""
    with pytest.raises(SettingsError, match="No such file"):
        load(tmp_path / "missing.yaml", environ={})
    with pytest.raises(SettingsError, match="directory"):
        load(tmp_path, environ={})
    (tmp_path / "large.yaml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(SettingsError, match="larger"):
        load(tmp_path / "large.yaml", environ={})
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x00\xff")
    with pytest.raises(SettingsError, match="YAML"):
        load(tmp_path / "binary.yaml", environ={})


@pytest.mark.parametrize("text", ["", "# nothing\n", "verbs:\n  # port: 1\n"])
def test_an_empty_file_is_the_defaults(written, text):
    """So is a section in which everything is commented out."""
    assert written(text) == load(environ={})


def test_mutual_tls_may_listen_anywhere(written):
    """Whoever asks for certificates may be reached from the network."""
    settings = written("verbs: {host: 0.0.0.0, cert: a, key: b, clientCa: c, clientNames: [kube-scheduler]}")

    assert settings.verbs.client_names == ("kube-scheduler",)


@pytest.mark.slow
@hypothesis.settings(deadline=None, max_examples=50)  # each is a start for every setting there is
@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_whatever_a_variable_says_is_a_setting_or_an_error(text):
    """Nothing but SettingsError is ever raised."""
    for name in NAMES:
        try:
            load(environ={name: text})
        except SettingsError as error:
            assert str(error)  # noqa: PT017 - most texts are errors


def test_every_setting_is_explained():
    """A docstring stands under each field: meaning, unit, reason of the default."""
    for section, kind in SECTIONS.items():
        source = inspect.getsource(kind)
        for field in dataclasses.fields(kind):
            _, _, after = source.partition(f"    {field.name}: Annotated[")
            assert '"""' in after.split("\n\n")[0], f"{section}.{camel(field.name)} has no docstring"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: {weight: -1}}", "must be between 0.001 and"),
        ("{a: {weight: heavy}}", "must be a number"),
        ("{a: {guaranteed: {cpu: many}}}", "must be a quantity of cpu"),
        ("{a: {guaranteed: {cpu: 4}, ceiling: {cpu: 2}}}", "the ceiling of cpu must not be below"),
        ("{a: {garanteed: {cpu: 4}}}", "'garanteed' is unknown here"),
        ("{A_b: {}}", "must be the name of a namespace"),
        ("[a]", "must be a mapping"),
    ],
)
def test_share_that_cannot_be(written, text, message):
    """A share that contradicts itself, or says something unknown, stops the start with its line and what would be
    right.
    """
    with pytest.raises(SettingsError, match=message) as refused:
        written(f"queue:\n  shares: {text}\n")
    assert "line 2" in str(refused.value)
    assert "queue.shares" in str(refused.value)


def test_unknown_order(written):
    """An order that does not exist is refused with the ones that do."""
    with pytest.raises(SettingsError, match="must be one of fifo, las, shortest, fair"):
        written("queue: {order: lifo}")
