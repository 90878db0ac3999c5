"""No text of the product uses a forbidden word, and the list finds each kind of them."""

import pytest

from tests.docs import words

MORE = ("bench/demo", "bench/README.md", "CHANGELOG.md", ".agents")


@pytest.mark.parametrize("place", [*words.PLACES, *MORE])
def test_no_forbidden_word(place):
    """Every file here uses words of technical American English alone."""
    found = [own for path in words.files(words.ROOT / place) for own in words.finds(path)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Nobody is told.", "Nobody"),
        ("whoever asks", "whoever"),
        ("the person whom it names", "whom"),
        ("what he may do", "he"),
        ("is begun anew", "anew"),
        ("waits for ever", "for ever"),
        ("a start that was foretold", "foretold"),
        ("mends what it can", "mends"),
        ("for so long", "so long"),
        ("they take it by turns", "by turns"),
        ("the pod is made again", "made again"),
        ("a pod that gives way", "gives way"),
        ("such as e.g. this", "e.g."),
        ("towards the end", "towards"),
        ("the colour", "colour"),
        ("its behaviour", "behaviour"),
        ("a grey node", "grey"),
        ("modelled by the planner", "modelled"),
        ("Utilisation of GPUs", "Utilisation"),
        ("normalise it", "normalise"),
        ("reorganised, then serialised", "serialised"),
        ("its licence", "licence"),
    ],
)
def test_a_forbidden_word_is_found(tmp_path, text, word):
    """Words for people, words of no native speaker, and British spellings are found, in any case."""
    place = tmp_path / "made-up.md"
    place.write_text(f"One line.\n{text}\n", encoding="utf-8")

    assert list(words.finds(place)) == [f"{place}:2: {word}"]


@pytest.mark.parametrize(
    "text", ["the shelf", "asyncio.cancelled()", "precise", "a mendable header", "here", "otherwise"]
)
def test_other_words_are_free(tmp_path, text):
    """A word that only contains a forbidden one is none, nor is a name of an API."""
    place = tmp_path / "made-up.md"
    place.write_text(text, encoding="utf-8")

    assert list(words.finds(place)) == []
