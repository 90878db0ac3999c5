"""The tree of errors: what it says of itself is true, and its texts are fit for people."""

import inspect

import pytest

from scheduler import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and value.__module__ == "scheduler.errors"
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_stands_in_the_drawing(kind: type[Exception]) -> None:
    """The tree in the docstring names every class, and every class grows from its root."""
    assert issubclass(kind, errors.GangwrightError)
    assert kind.__name__ in (errors.__doc__ or "")


def test_a_settings_error_names_field_value_and_remedy() -> None:
    """A person reads which setting, what it was, and what would be right."""
    error = errors.SettingsError("timeout", "5x", "a duration such as 30s")
    assert str(error) == "timeout = '5x': a duration such as 30s"


def test_a_kube_error_reads_as_one_line() -> None:
    """Call, status, reason and message stand in one line, whatever the server's message holds."""
    error = errors.Conflict("PUT /x", "line one\nline two", status=409, reason="Conflict")
    assert str(error) == "PUT /x: 409 Conflict: line one line two"


def test_the_words_of_a_kube_error_leave_out_the_call() -> None:
    """People know what was asked for; whatever the call is, the rest stays."""
    assert errors.Conflict("PUT /x", "busy", status=409, reason="Conflict").words == "409 Conflict: busy"
    assert errors.Unreachable("", "refused").words == str(errors.Unreachable("", "refused")) == "refused"


def test_a_quotation_is_cut_in_its_middle() -> None:
    """Beginning and end of a long text are kept, on one line; a short one stays as it is."""
    text = errors.abridged("spec.template: {" + "x" * 100_000 + "}:\nfield is immutable")
    assert text.startswith("spec.template: {x")
    assert text.endswith("x}: field is immutable")
    assert len(text) == errors.TEXT_LIMIT
    assert errors.abridged("a \n b") == "a b"


def test_foreign_texts_are_cut() -> None:
    """A server's message of any length leaves a short text with an ellipsis."""
    error = errors.ServerError("GET /x", "y" * 100_000, status=500)
    assert len(str(error)) < 300
    assert str(error).endswith("…")
