"""The report of all tables: what is measured, what is kept, what is wrong, and how it looks."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import bench.__main__ as program
from bench.tables import document, known, measuring, pictures, ranges, records
from bench.tables.measuring import Report
from bench.tables.ranges import Range, RangesError
from bench.tables.records import Origin
from bench.tables.table import Chart, Profile, Series, Table

TABLE = Table(
    "Two jobs",
    "It shows the time of two jobs. It does not show accuracy.",
    ("policy", "published", "Gangwright"),
    (("gang", 968.0, 958.25), ("elastic", None, 735.5)),
    {"gang_s": 958.25},
    ("A note.",),
    (
        Chart("policy", "time, s", (Series("Gangwright", ("gang", "elastic"), (958.0, 735.5), (3.0, 2.0)),)),
        Chart(
            "time, s", "GPUs", (Series("gang", (0.0, 10.0), (0, 4)), Series("elastic", (0.0, 10.0), (0, 6)))
        ),
    ),
)
ORIGIN = Origin("abc1234", "3.11.7", "2.4.6", 2)


@pytest.fixture(autouse=True)
def commit(monkeypatch):
    """The code is of this commit, wherever the tests run; a test may change it."""
    current = [ORIGIN]
    monkeypatch.setattr(Origin, "here", lambda: current[0])
    return current


class Maker:
    """Makes the table, and counts how often."""

    def __init__(self, table=TABLE):
        self.calls = 0
        self.table = table

    def __call__(self, profile, workers):
        self.calls += 1
        return self.table


def fails(profile, workers):
    raise ValueError("jobs.csv: not found")


def report(folder, makers, bounds=None, *, again=False):
    found = Report(makers, Profile.QUICK, folder, bounds or {})
    found.run(1, again=again)
    return found, (folder / "report.md").read_text(encoding="utf-8")


def test_report_has_table_pictures_notes_and_origin(tmp_path):
    """The document shows each part of a table, and the picture of each chart is a file beside it."""
    found, text = report(tmp_path, {"two": Maker()}, {"two": {"gang_s": Range(950, 960, "computed")}})

    assert found.holds
    for part in (
        TABLE.title,
        TABLE.shows,
        "* A note.",
        "(two-1.svg)",
        "(two-2.svg)",
        "commit abc1234",
        "1 of 1",
    ):
        assert part in text
    assert {path.name for path in tmp_path.iterdir()} == {
        "two.json", "two-1.svg", "two-2.svg", "report.md", "report.json",
    }  # fmt: skip
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert written["holds"] is True
    assert written["tables"]["two"]["table"]["figures"] == {"gang_s": 958.25}


def test_existing_table_is_not_measured_again(tmp_path):
    """A second run measures the table that is missing alone, and its report has both."""
    one, two = Maker(), Maker()
    report(tmp_path, {"one": one})
    _, text = report(tmp_path, {"one": one, "two": two})

    assert (one.calls, two.calls) == (1, 1)
    assert text.count(f"## {TABLE.title}") == 2


def test_again_measures_what_exists(tmp_path):
    """With `again` a table is measured although it exists."""
    one = Maker()
    report(tmp_path, {"one": one})
    report(tmp_path, {"one": one}, again=True)

    assert one.calls == 2


def test_table_of_another_commit_is_measured_again(tmp_path, commit, capsys):
    """A table from another commit is measured again, and standard error says why."""
    one = Maker()
    report(tmp_path, {"one": one})
    commit[0] = replace(ORIGIN, commit="def5678")
    report(tmp_path, {"one": one})

    assert one.calls == 2
    assert "one: exists from commit abc1234, the code is def5678" in capsys.readouterr().err


def test_file_that_holds_no_table_is_measured_again(tmp_path, capsys):
    """Half a file does not stop the report."""
    (tmp_path / "one.json").write_text('{"name": "one"', encoding="utf-8")
    one = Maker()
    found, _ = report(tmp_path, {"one": one})

    assert found.holds
    assert one.calls == 1
    assert "cannot be read" in capsys.readouterr().err


def test_failing_table_is_reported_and_the_others_go_on(tmp_path):
    """The error of a table stands in the report, the next table is measured, and the report does not hold."""
    found, text = report(tmp_path, {"bad": fails, "two": Maker()})

    assert not found.holds
    assert "**Failed:** ValueError: jobs.csv: not found" in text
    assert f"## {TABLE.title}" in text
    assert not (tmp_path / "bad.json").exists()


def test_figure_outside_its_range_is_listed(tmp_path):
    """The report names table, figure, value, range and the range's origin, and does not hold. So does a later run."""
    bounds = {"two": {"gang_s": Range(960, 970, "968 published")}}
    one = Maker()
    for _ in range(2):
        found, text = report(tmp_path, {"two": one}, bounds)

        assert not found.holds
        row = next(line for line in text.splitlines() if "968 published" in line)
        assert [cell.strip() for cell in row.strip("|").split("|")] == [
            "two", "gang_s", "958.25", "960 to 970", "968 published",
        ]  # fmt: skip
    assert one.calls == 1


def test_range_of_an_unknown_figure_is_refused(tmp_path):
    """A misspelled figure in the ranges is an error of its table. The table is shown all the same."""
    found, text = report(tmp_path, {"two": Maker()}, {"two": {"gong_s": Range(0, 1, "")}})

    assert not found.holds
    assert "gong_s: not found among the figures of the table" in text
    assert "| elastic |" in text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": ((1.0,),)}, "rows[0]: 1 cells"),
        ({"figures": {"x": math.inf}}, "figures.x: inf"),
        ({"charts": (Chart("x", "y", (Series("s", (1, 2), (1,)),)),)}, "s: x, y and error"),
        ({"charts": (Chart("x", "y", (Series("s", (1, "a"), (1, 2)),)),)}, "texts alone or numbers alone"),
        ({"charts": (Chart("x", "y", (Series("s", (), ()),)),)}, "must have a series with a point"),
    ],
)
def test_table_that_cannot_be_shown_is_an_error(tmp_path, wrong, said):
    """The error names the field, its value and what it must be."""
    found, text = report(tmp_path, {"two": Maker(replace(TABLE, **wrong))})

    assert not found.holds
    assert said in text


def test_pictures_are_the_same_in_every_run(tmp_path):
    """Two drawings of one table are equal byte by byte."""
    record = records.Record("two", Profile.QUICK, TABLE, 1.0, ORIGIN)
    names = pictures.draw(record, tmp_path / "a")
    pictures.draw(record, tmp_path / "b")

    assert names == ["two-1.svg", "two-2.svg"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ((968.0, 735.5), ["968.0", "735.5"]),
        ((95.391, 94.2), ["95.39", "94.20"]),
        ((7083.25, 5519.0), ["7,083", "5,519"]),
        ((0.8, None), ["0.8", "–"]),
        ((10866, 3), ["10,866", "3"]),
        ((-1.5, 2.0), ["−1.5", "2.0"]),
        ((3470.2, 0.0041), ["3,470", "0.004"]),
        (("a|b", 1.0), ["a\\|b", "1"]),
    ],
)
def test_numbers_have_sensible_digits(column, texts):
    """A column shares its decimals: enough for its largest number, none that says nothing."""
    assert document.cells(column) == texts


def test_ranges_file_names_known_tables():
    """The ranges that the report uses are of this form, for each profile."""
    for profile in Profile:
        ranges.read(profile, known.NAMES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[quick.openx]\na = { low = 1, high = 2, why = '' }", "quick.openx: unknown table"),
        ("[fast.openb]\na = { low = 1, high = 2, why = '' }", "fast: unknown profile"),
        ("[quick.openb]\na = { low = 1, high = 2 }", "quick.openb.a: must be a table of low, high and why"),
        ("[quick.openb]\na = { low = 3, high = 2, why = '' }", "quick.openb.a: low and high"),
        ("[quick.openb", "cannot be read"),
    ],
)
def test_wrong_ranges_are_refused(tmp_path, text, said):
    """The error names the table, the figure and what must be written."""
    path = tmp_path / "ranges.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(RangesError, match=said):
        ranges.read(Profile.QUICK, known.NAMES, path)


def test_proposed_ranges_read_as_ranges(tmp_path):
    """Ranges that were proposed from two reports hold for both: narrow if the figure was the same, wide if not."""
    for name, seconds in (("a", 90.0), ("b", 110.0)):
        table = replace(TABLE, figures={"same": 4.0, "seconds": seconds})
        report(tmp_path / name, {"openb": Maker(table)})
    lines = ranges.proposal([tmp_path / name / "report.json" for name in ("a", "b")])
    (tmp_path / "ranges.toml").write_text("\n".join(lines), encoding="utf-8")
    found = ranges.read(Profile.QUICK, known.NAMES, tmp_path / "ranges.toml")["openb"]

    assert (found["same"].low, found["same"].high) == pytest.approx((3.98, 4.02))
    assert (found["seconds"].low, found["seconds"].high) == (80.0, 120.0)
    assert "2 runs" in found["seconds"].why


def test_command_ends_with_one_if_a_table_fails(tmp_path, monkeypatch):
    """The command prints where the report is, and its exit code says whether the report holds."""
    monkeypatch.setattr(program, "MAKERS", {"philly": Maker(), "openb": fails})
    monkeypatch.setattr(ranges, "read", lambda profile, tables: {})
    good = CliRunner().invoke(program.app, ["--only", "philly", "--out", str(tmp_path)])
    bad = CliRunner().invoke(program.app, ["--only", "philly,openb", "--out", str(tmp_path)])

    assert (good.exit_code, bad.exit_code) == (0, 1), good.output
    assert good.stdout.strip() == str(tmp_path / "quick" / measuring.DOCUMENT)


def test_command_refuses_an_unknown_table(tmp_path):
    """The error names the word and the tables that exist."""
    result = CliRunner().invoke(program.app, ["--only", "philly,openx", "--out", str(tmp_path)])

    assert result.exit_code == 2
    assert "'openx': unknown table" in result.output
