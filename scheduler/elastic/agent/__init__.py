"""The first process of every worker: starts the training, speaks for it to the master, and ends in order.

Lives here: settings from the environment, the child's life, the client of the master, the loopback shim that answers
Horovod's rendezvous, the watchdog, and the archive that carries all of it into any image. `runtime` runs inside the
training process itself. Never here: a third-party import, syntax newer than Python 3.8, or an import of any other
package of ours than `runtime`: both also run below the name `gangwright_agent`, from a zip archive, on the Python of
any image.

The way into the training is PYTHONPATH and a `sitecustomize`: a training started by `python -I`, `-E` or `-S` looks at
neither, never reports and never joins. The agent warns of it where it sees the option in its command; behind a shell it
cannot.
"""
