"""The bench of floods: its arithmetic, its table and its options; the real run alone is long."""

import json

import pytest
from typer.testing import CliRunner

from bench.load import cluster, floods
from bench.load.__main__ import app

OURS = floods.Side([float(number) for number in range(1, 101)], 2, {"200": 5, "429": 7, "400": 1})
BARE = floods.Side([0.5] * 100, 0, {"200": 9})


def test_figures_of_both_servers():
    """The ratio is of the p99s; an answer that is neither given nor refused keeps its status."""
    assert floods.figures(OURS, BARE) == {
        "calls": 100,
        "failed": 2,
        "p50_ms": 50.0,
        "p99_ms": 99.0,
        "max_ms": 100.0,
        "bare_p50_ms": 0.5,
        "bare_p99_ms": 0.5,
        "bare_max_ms": 0.5,
        "ratio": 198.0,
        "answered": 5,
        "refused": 7,
        "other": {"400": 1},
        "bare_answered": 9,
    }


def test_without_calls_there_is_no_ratio():
    """An extender that answers no call has no p99 to compare, and the calls that failed are told."""
    line = floods.figures(floods.Side([], 3, {}), BARE)

    assert (line["ratio"], line["failed"]) == (None, 3)


def test_table_has_a_row_for_each_phase():
    """Every row has a cell under every head, also where there is nothing to tell."""
    memory = {"rss_mib": 90.0, "peak_mib": 91.0}
    lines = [
        {"phase": "quiet", **floods.figures(floods.Side([], 0, {}), BARE), **memory},
        {"phase": "scrapes", **floods.figures(OURS, BARE), **memory},
    ]

    head, *rows = floods.table(lines).splitlines()

    assert head.split() == list(floods.HEADS)
    assert [len(row.split()) for row in rows] == [len(floods.HEADS)] * 2
    assert rows[0].split()[7] == "-"
    assert rows[1].split()[-2:] == ["400:1", "9"]


@pytest.mark.parametrize("name", floods.FLOODS)
def test_clients_are_divided_among_processes(name):
    """All of a flood's clients, calls and accounts are there, each account in one process or in all."""
    flood = floods.FLOODS[name]
    tokens = [str(number) for number in range(8)]
    urls = {"probes": "p", "status": "s"}
    shares = [] if flood is None else floods.shares(flood, urls, tokens, 1.0)

    assert sum(share.clients for share in shares) == (flood.clients if flood else 0)
    assert sum(share.rate for share in shares) == (flood.rate if flood else 0)
    assert len({token for share in shares for token in share.tokens}) == (flood.accounts if flood else 0)
    assert all(json.loads(share.body)["pods"][0]["count"] == 4096 for share in shares if share.body)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--phases", "rain"), "rain"),
        (("--phases", "quiet,quiet"), "quiet"),
        (("--seconds", "0"), "--seconds"),
    ],
)
def test_options_are_checked_before_anything_starts(words, said):
    """A phase that is unknown or named twice, and a phase without a second, are refused by name."""
    done = CliRunner().invoke(app, ["floods", *words])

    assert (done.exit_code, said in done.output) == (2, True)


@pytest.mark.extended
def test_no_client_outlives_an_interrupted_flood():
    """The clients' processes are gone when the phase ends early."""
    urls = {"probes": "http://127.0.0.1:9"}
    with pytest.raises(KeyboardInterrupt), floods.flooded(floods.FLOODS["scrapes"], urls, [], 60) as peers:
        raise KeyboardInterrupt

    assert [peer.poll() for peer in peers] == [-9, -9]


@pytest.mark.extended
@pytest.mark.plane
@pytest.mark.timeout(300)
def test_floods_of_a_second():
    """Beside each flood the prober is answered by both servers, and the flood is answered or refused by both."""
    with cluster.plane() as plane:
        lines = list(floods.measure(plane, 1.0))

    assert [line["phase"] for line in lines] == list(floods.FLOODS)
    assert all(line["calls"] and line["ratio"] and not line["failed"] for line in lines), lines
    assert all(line["answered"] or line["refused"] or line["other"] for line in lines[1:]), lines
    assert all(line["bare_answered"] for line in lines[1:]), lines
