"""Sources of settings: which counts before which, and how each mistake names its place."""

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import SettingsError
from scheduler.settings import Settings, load, sources
from scheduler.settings.sections import NAMES
from scheduler.settings.sources import REMOVED, Removed, camel, variable


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


def test_a_text_is_read_as_the_file_that_has_it(tmp_path):
    """The same settings, and the same place in an error."""
    file = tmp_path / "settings.yaml"
    right, wrong = "verbs: {port: 1000}", "verbs:\n  port: ten"
    file.write_text(right, encoding="utf-8")
    assert load(file, environ={}) == load(text=right, environ={})

    file.write_text(wrong, encoding="utf-8")
    with pytest.raises(SettingsError) as of_file:
        load(file, environ={})
    with pytest.raises(SettingsError) as of_text:
        load(text=wrong, environ={})

    assert str(of_text.value) == str(of_file.value)
    assert "settings.yaml, line 2" in str(of_text.value)


def test_a_setting_is_written_in_two_ways():
    """In YAML as fields of Kubernetes are, in the environment as variables are."""
    assert camel("default_start_limit") == "defaultStartLimit"
    assert variable("verbs", "http_timeout") == "GANGWRIGHT_VERBS__HTTP_TIMEOUT"


MISTAKES = [
    (
        "verbs:\n  prot: 1",
        r"verbs\.prot \(settings\.yaml, line 2\) = '1': unknown setting; did you mean verbs\.port",
    ),
    ("verb:\n  port: 1", r"verb\.port \(settings\.yaml, line 2\).*unknown setting; did you mean verbs\.port"),
    ("verbs:\n  port: 1\n  port: 2", r"line 3\).*is a duplicate"),
    ("verbs: 5", r"verbs \(settings\.yaml, line 1\) = '5': must be a mapping"),
    ("- verbs", r"must be a mapping"),
    ("verbs:\n  port: [1", r"settings\.yaml, line \d.*must be YAML"),
    ("verbs:\n\tport: 1", r"settings\.yaml, line 2.*must be YAML"),
    ("a: 1\n---\nb: 2", r"must be YAML"),
    ("[" * 5000, r"must be YAML"),
    ("<<: {verbs: 1}", r"must be a mapping|unknown setting"),
    ("? [a]\n: 1", r"must be a single value"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[text[:40] for text, _ in MISTAKES])
def test_a_mistake_is_told_with_its_place_and_remedy(written, text, said):
    """Nothing wrong is ever taken for something else, or ignored."""
    with pytest.raises(SettingsError, match=said):
        written(text)


@pytest.mark.parametrize("how", ["file", "environment", "flag"])
@pytest.mark.parametrize("row", REMOVED, ids=lambda row: row.setting)
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
    monkeypatch.setattr(sources, "REMOVED", (gone,))
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
        ({}, {"verbs.prot": "1"}, r"verbs\.prot \(flag\).*unknown setting"),
        ({}, {"verbs.port": "x"}, r"verbs\.port \(flag\) = 'x': must be a whole number"),
    ],
)
def test_the_environment_and_flags_are_as_strict(environ, flags, said):
    """A variable or flag that is read by nothing is a mistake too."""
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
