"""`gangwright shares`: usage, guarantee and ceiling of each namespace."""

from collections.abc import Iterator, Sequence

from scheduler.cli import screen
from scheduler.cli.gangs import source
from scheduler.cli.options import Context, Form, Kubeconfig, Offline, Reach, Server, Settings, Shown
from scheduler.status.accounting import ShareAmount, ShareRow

HEAD = ("NAMESPACE", "RESOURCE", "USED", "GUARANTEED", "BORROWED", "CEILING", "WAITING")


def shares(
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """Show usage, guarantee and ceiling of each namespace.

    It shows the namespaces of the setting `queue.shares`, and others that use devices or wait for them. The resources
    are devices and those that `queue.shares` names. `-o wide` shows every resource. Namespaces whose pods you may not
    list are one row.
    """
    answers = source(Reach(kubeconfig, context, settings, server, offline))
    found = answers.shares()
    if screen.document(found, output):
        return
    screen.table(HEAD, _lines(found.shares, wide=output is Form.WIDE))
    for text in answers.notes():
        screen.note(text)
    if not any(_is_named(own) for row in found.shares for own in row.resources.values()):
        screen.note("queue.shares sets no guarantee and no ceiling")


def _lines(rows: Sequence[ShareRow], *, wide: bool) -> Iterator[list[str]]:
    named = {name for row in rows for name, own in row.resources.items() if _is_named(own)}
    for row in rows:
        for name, own in sorted(row.resources.items(), key=lambda item: ("/" not in item[0], item[0])):
            if wide or name in named or "/" in name:
                yield [_called(row), name, *_amounts(name, own)]


def _is_named(own: ShareAmount) -> bool:
    """Whether `queue.shares` sets a guarantee or a ceiling for it."""
    return bool(own.guaranteed) or own.ceiling is not None


def _called(row: ShareRow) -> str:
    if row.namespace is not None:
        return row.namespace
    return f"({row.namespaces} other{'' if row.namespaces == 1 else 's'})"


def _amounts(name: str, own: ShareAmount) -> list[str]:
    """Amounts in common units. A dash for none."""
    from scheduler.cli.nodes_command import amount  # late, as it loads numpy

    values = (own.guaranteed or None, own.borrowed or None, own.ceiling, own.waiting or None)
    return [amount(name, own.used), *("-" if value is None else amount(name, value) for value in values)]
