"""What errors of the API server are called in one word."""

import pytest

from scheduler import errors
from scheduler.kube.api_errors import UNAVAILABLE, WORDS, word_of
from scheduler.model.events import FailureKind


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (errors.NotFound, "not-found"),
        (errors.Gone, "not-found"),
        (errors.Conflict, "conflict"),
        (errors.Invalid, "invalid"),
        (errors.Forbidden, "forbidden"),
        (errors.Unauthorized, "forbidden"),
        (errors.ServerError, "unavailable"),
        (errors.Silent, "unavailable"),
    ],
)
def test_each_error_is_one_word(kind, word):
    """Whatever is not in the table may be different a moment later."""
    assert word_of(kind("GET /", "")) == word


def test_the_engine_knows_every_word():
    """A call that failed becomes an event of the ledger by its word."""
    assert {*WORDS.values(), UNAVAILABLE} <= set(FailureKind)
