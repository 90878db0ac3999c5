"""Settings that were removed, at the start of `serve` and `elastic` and in a command on a live cluster."""

import json

from scheduler.cli.daemon import settings_of
from scheduler.model.workload import Strategy


def test_a_removed_word_is_one_warning_in_the_log(tmp_path, capsys):
    """The program starts with the nearest word, and one line of the log says so."""
    file = tmp_path / "settings.yaml"
    file.write_text("placement:\n  strategy: dot\nlog:\n  format: json", encoding="utf-8")

    assert settings_of(file, {}).placement.strategy is Strategy.COSINE

    (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (line["event"], line["level"]) == ("removed setting", "warning")
    assert line["message"].startswith("placement.strategy (settings.yaml, line 2) = 'dot': ")


async def test_a_removed_word_of_the_clusters_settings_is_noted(cluster):
    """A command that reads them uses the nearest word, and says so beside its answer."""
    cluster.settings("placement:\n  strategy: dot")
    cluster.gang("waits", 4, gpus=8)

    said = await cluster.say_offline("explain", "team/waits", "-o", "json")

    assert said.json["wishes"]["strategy"] == "cosine"
    assert "placement.strategy (settings.yaml, line 2) = 'dot': " in said.err
