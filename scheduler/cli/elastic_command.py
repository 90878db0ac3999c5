"""`gangwright elastic`: the elastic master, which looks after ElasticJobs."""

import asyncio

from scheduler.cli.daemon import Flags, SettingsFile, flags_of, listening, settings_of, until_told
from scheduler.elastic.controller.elastic_master import run


def elastic(settings: SettingsFile = None, set_: Flags = None) -> None:
    """Look after ElasticJobs: make and remove their workers, decide their sizes, and let workers meet.

    Prints one line of JSON with the addresses of rendezvous and probes once it holds the Lease and they are open.
    """
    chosen = settings_of(settings, flags_of(set_ or []))
    asyncio.run(until_told(run(chosen, listening)))
