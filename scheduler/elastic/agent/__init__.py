"""The first process of every worker: starts the training, represents it to the master, and shuts down in order.

Lives here: settings from the environment, the life of the child, the client of the master, the loopback shim that
answers Horovod's rendezvous, the watchdog, and the archive that carries all of it into any image. `runtime` runs inside
the training process itself. Never here: a third-party import, syntax newer than Python 3.8, or an import of any other
Gangwright package than `runtime`: both also run under the name `gangwright_agent`, from a zip archive, on the Python of
any image.

The agent enters the training through PYTHONPATH and a `sitecustomize`. A training started with `python -I`, `-E` or
`-S` ignores them, never reports and never joins. The agent warns if it sees such an option in its command; behind a
shell it cannot see it.
"""
