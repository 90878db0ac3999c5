"""What pages say exists: links and anchors lead somewhere, paths exist, commands parse, YAML is what it claims to be."""

import re

import pytest

from scheduler.objects.labels import GANG
from tests.docs import command_lines, links, manifest_blocks
from tests.docs.pages import DOCS, README, ROOT, Page, pages

CHECKS = {"links": links.complaints, "commands": command_lines.complaints, "YAML": manifest_blocks.complaints}


def made_up(text):
    """A page of docs/ that nobody wrote."""
    return Page(DOCS / "reference" / "made-up.md", text)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("page", pages(), ids=str)
def test_pages(page, check):
    """Every link and path of a page exists, every command of ours parses, and every block of YAML is valid."""
    assert list(CHECKS[check](page)) == []


def test_the_checks_see_something():
    """There are links, commands and YAML on the pages: a check that found none would say nothing."""
    found = pages()

    assert sum(len(page.links) for page in found) > 20
    assert (
        sum(
            1
            for page in found
            for piece in command_lines.shell_lines(page)
            for _ in command_lines.calls(piece.text)
        )
        > 40
    )
    assert sum(1 for page in found for block in page.blocks if block.kind in manifest_blocks.YAML) > 4


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](nowhere.md)", "does not exist"),
        ("[a](labels.md#nowhere)", "no heading has the anchor nowhere"),
        ("[a](#nowhere)", "no heading has the anchor nowhere"),
        ("[a][b]\n\n[b]: nowhere.md", "does not exist"),
        ("[a](../../../elsewhere.md)", "does not exist"),
        ("![a](nowhere.png)", "does not exist"),
        ('<img src="nowhere.png">', "does not exist"),
        ("see `manifests/nowhere.yaml`", "does not exist"),
        ("| a |\n|---|\n| `manifests/nowhere/*.yaml` |", "does not exist"),
        ("```sh\nkubectl apply -k manifests/nowhere\n```", "does not exist"),
    ],
)
def test_a_bad_link_is_found(text, wrong):
    """A link to a page, an anchor or an image that does not exist is found, and so is a path."""
    (found,) = links.complaints(made_up(text))
    assert found.endswith(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "[a](labels.md#you-write-these)",
        "[a](cli.md#gangwright-list)",
        "[a](../../README.md)",
        "# Two words, `code` & more: x/y\n\n[a](#two-words-code--more-xy)",
        "# A\n\n# A\n\n[a](#a-1)",
        "[a](https://example.com/nowhere)",
        "see `manifests/samples/*.yaml`, `SECURITY.md` and `manifests/overlays/mine`",
    ],
)
def test_a_good_link_is_none(text):
    """Anchors are those that GitHub makes; what another site has is not asked for."""
    assert list(links.complaints(made_up(text))) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```sh\ngangwright lists\n```", "no command 'lists'"),
        ("```sh\ngangwright list --al\n```", "--al"),
        ("```\n$ gangwright list -o xml\n```", "xml"),
        ("```\n$ kubectl gangwright explain\n```", "Missing argument"),
        ("```sh\nkubectl get pods && gangwright submit --wait | tail  # why\n```", "Missing option"),
        ("```sh\ngangwright simulate \\\n  --snapshots s.json\n```", "--snapshots"),
        ("run `gangwright submit -f`", "requires an argument"),
        ("run `gangwright mend`", "no command 'mend'"),
        ("```sh\nkubectl -n team get pods 'a\n```", "No closing quotation"),
        ("```sh\ngangwright --namespace team list\n```", "before the command"),
    ],
)
def test_a_bad_command_is_found(text, wrong):
    """A command, option, value or argument that the command line does not take is found, and a line that is torn."""
    (found,) = command_lines.complaints(made_up(text))
    assert wrong in found


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ngangwright explain [NAMESPACE/]GANG   # why it doesn't start\nkubectl gangwright drain NODE --wait\n```",
        "```\n$ gangwright nodes\nRACK  it's output\n```",
        "```sh\nGANGWRIGHT_SERVER=pod gangwright simulate -f - -n team < job.yaml > out\n```",
        "`gangwright explain` and `gangwright history --limit N`; `gangwright submit …`; `gangwright.io/gang`",
        "```\n gangwright ─── all members exist?\n```",
    ],
)
def test_a_good_command_is_none(text):
    """Placeholders, output, pipes and comments are no errors; a command may be named without its arguments."""
    assert list(command_lines.complaints(made_up(text))) == []


POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"


def member(quorum, scheduler="gangwright"):
    """A pod of a gang that needs so many."""
    labels, annotations = "{gangwright.io/gang: a}", f"{{gangwright.io/min-members: '{quorum}'}}"
    spec = f"{{schedulerName: {scheduler}, containers: [{{name: a, image: a}}]}}"
    return f"{POD}  labels: {labels}\n  annotations: {annotations}\nspec: {spec}"


ELASTIC_JOB = """
apiVersion: gangwright.io/v1alpha1
kind: ElasticJob
metadata: {name: a}
spec: {minWorkers: 3, maxWorkers: 2, template: {spec: {containers: [{name: a, image: a, command: [a]}]}}}
"""


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a: [b", "expected"),
        ("a: 1\na: 2", "twice"),
        (f"{POD}  annotations: {{gangwright.io/min-membres: '2'}}", "gangwright.io/min-membres"),
        ("spec:\n  template: {metadata: {labels: {gangwright.io/gangs: a}}}", "gangwright.io/gangs"),
        ("queue: {order: fastest}", "must be one of"),
        ("queue: {ordre: fifo}", "ordre"),
        ("resources: [../nowhere]", "does not exist"),
        (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../nowhere]",
            "does not exist",
        ),
        (member("2"), "needs 2 members, and 1 are made"),
        (member("many"), "many"),
        (member("1", scheduler="other"), "schedulerName must be gangwright"),
        (ELASTIC_JOB, "maxWorkers"),
    ],
)
def test_bad_yaml_is_found(text, wrong):
    """What is no YAML, no known key, no setting, no gang that can ever be whole, or no valid ElasticJob, is found."""
    found = list(manifest_blocks.complaints(made_up(f"```yaml\n{text}\n```")))
    assert found
    assert all(wrong in own for own in found)


def test_samples_are_shown():
    """A newcomer finds a gang of a Job, an ElasticJob and a gang of several kinds of replicas to copy."""
    found = [
        own
        for page in pages()
        for block in page.blocks
        if block.kind in manifest_blocks.YAML
        for own in manifest_blocks.documents(block.text)
        if manifest_blocks.is_object(own)
    ]
    in_gangs = {
        own["kind"]
        for own in found
        for pod in manifest_blocks.pod_templates(own)
        if GANG in ((pod.get("metadata") or {}).get("labels") or {})
    }

    assert {"Job", "PyTorchJob"} <= in_gangs
    assert "ElasticJob" in {own["kind"] for own in found}


@pytest.mark.parametrize("page", pages(), ids=str)
def test_make_targets_exist(page):
    """Every `make` target that a page names is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    named = {piece.text for piece in page.words if piece.text.startswith("make ")}
    named |= {piece.text for piece in command_lines.shell_lines(page) if piece.text.startswith("make ")}

    assert {own.split()[1] for own in named if re.fullmatch(r"[a-z-]+", own.split()[1])} <= targets


def test_the_readme_is_short():
    """README.md is read in one go: everything else is below docs/."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 250
