"""A stand-in for Horovod's native half: scripts that import it need neither a framework nor its C++.

`HorovodBasics`, the elastic states and the exceptions are Horovod's own Python, from the package that is installed. What
is replaced is the library below them (`Library`) and the collectives, of lists of numbers and of plain objects. Members
meet as those of gloo do, through the store that the environment names. Each lays down where it listens for each peer.
Of two members the one with the lower address waits for the other.

It dies and hangs where the real one does (`tests/stories/elastic/horovod/test_standin.py` holds both to one script):

* Inside `init`, a member that misses a peer ends with SIGABRT: when the store refuses, when a connection that it waits
  for comes and ends, and when its time is over.
* A collective fails on every member as soon as a peer's connection ends, and after the time-out when a peer's process is
  stopped. A member waits without end for a peer that lives and never takes part, or takes part in something else.

It is for stories that ask the master and the agent. What concerns Horovod itself is asked of the real one.
"""

import json
import os
import socket
import struct
import sys
import time
import types
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from horovod.common import elastic as common
from horovod.common import process_sets
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError

ENTRY = 136
"""Bytes of an address as gloo lays it down: a sockaddr_storage and a number that TCP has no use for."""
CONNECTING = 5
"""Collective time-outs that gloo waits for a connection."""
REFUSALS, BETWEEN_REFUSALS = 3, 0.5
"""Answers other than 200 and 404 after which Horovod's client of the store gives up, and the seconds between two."""
MISSING = 0.01
"""Seconds after which it asks again for a value that is not there."""


class Store:
    """Values of the round, by scope and key, at the address that the environment names. Raises OSError, TimeoutError."""

    def __init__(self, limit):
        place = "http://{HOROVOD_GLOO_RENDEZVOUS_ADDR}:{HOROVOD_GLOO_RENDEZVOUS_PORT}"
        self._place, self._limit = place.format(**os.environ), limit

    def put(self, key, value):
        self._ask(Request(f"{self._place}/{key}", value, method="PUT"))

    def get(self, key):
        until = time.monotonic() + self._limit
        while (value := self._ask(f"{self._place}/{key}")) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"no value of {key} within {self._limit:g} s")
            time.sleep(MISSING)
        return value

    def _ask(self, request):
        refused = 0
        while True:
            try:
                with urlopen(request) as answer:
                    return answer.read()
            except OSError as error:
                if isinstance(error, HTTPError) and error.code == 404:
                    return None
                refused += 1
                if refused == REFUSALS:
                    raise
            time.sleep(BETWEEN_REFUSALS)


class Mesh:
    """A connection to each peer, and the pid of its process. `rank` of `size`; raises OSError when one is missed."""

    def __init__(self, rank, size, limit):
        self.rank, self.size, self._limit = rank, size, limit
        self._peers, self._failed = {}, ""
        others = [other for other in range(size) if other != rank]
        if others:
            store = Store(limit)
            doors = {other: socket.create_server(("127.0.0.1", 0)) for other in others}
            try:
                self._meet(store, doors)
            finally:
                for door in doors.values():
                    door.close()
            self.exchange("barrier", None)

    def exchange(self, name, mine):
        """What every member gives, by rank. Raises HorovodInternalError when one cannot."""
        if self._failed:
            raise HorovodInternalError(self._failed)
        said = json.dumps([name, mine]).encode()
        given = {self.rank: mine}
        try:
            for stream, _ in self._peers.values():
                stream.sendall(struct.pack("!I", len(said)) + said)
            for other, (stream, pid) in self._peers.items():
                (length,) = struct.unpack("!I", self._read(stream, pid, 4))
                theirs, given[other] = json.loads(self._read(stream, pid, length))
                while theirs != name:
                    time.sleep(1)
        except OSError as error:
            self._failed = f"{name} failed: {error or type(error).__name__}"
            raise HorovodInternalError(self._failed) from error
        return [given[rank] for rank in range(self.size)]

    def close(self):
        for stream, _ in self._peers.values():
            stream.close()
        self._peers, self._failed = {}, "Horovod has been shut down"

    def _meet(self, store, doors):
        listens = b"".join(_entry(door.getsockname()) for door in doors.values())
        store.put(f"global/rank_{self.rank}", socket.gethostname().encode())
        store.put(f"global/{self.rank}", listens)
        streams = {}
        for other, door in doors.items():
            store.get(f"global/rank_{other}")
            theirs = store.get(f"global/{other}")
            place = self.rank - (self.rank > other)  # among the places of that one, which has none for itself
            address = theirs[place * ENTRY :][:ENTRY]
            if _entry(door.getsockname()) > address:
                streams[other] = socket.create_connection(_address(address), CONNECTING * self._limit)
                streams[other].sendall(struct.pack("!I", os.getpid()))
        # Only after it has connected where it is its turn to: members would wait for each other in a circle.
        for other in doors.keys() - streams.keys():
            doors[other].settimeout(CONNECTING * self._limit)
            streams[other], _ = doors[other].accept()
            streams[other].sendall(struct.pack("!I", os.getpid()))
        for other, stream in streams.items():
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.settimeout(CONNECTING * self._limit)
            (pid,) = struct.unpack("!I", self._read(stream, 0, 4))
            stream.settimeout(self._limit)
            self._peers[other] = stream, pid

    def _read(self, stream, pid, count):
        """So many bytes; waits as long as the peer's process goes on, though it give nothing."""
        got = b""
        while len(got) < count:
            try:
                more = stream.recv(count - len(got))
            except TimeoutError:
                if pid and not _stopped(pid):
                    continue
                raise
            if not more:
                raise ConnectionResetError("a peer's connection ended")
            got += more
        return got


class Library:
    """What `HorovodBasics` calls of Horovod's C++. A failure in `init` ends the process, as there."""

    def __init__(self):
        self._mesh, self._again = None, False

    def horovod_init(self, *_):
        if self._mesh is None:
            limit = float(os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS", "30"))
            try:
                self._mesh = Mesh(*self._place(limit), limit)
            except (OSError, HorovodInternalError) as error:
                sys.stderr.write(f"standin: init failed: {error or type(error).__name__}\n")
                sys.stderr.flush()
                os.abort()
        return 1

    def horovod_shutdown(self):
        if self._mesh is not None:
            self._mesh.close()
            self._mesh, self._again = None, True

    def horovod_rank(self):
        return -1 if self._mesh is None else self._mesh.rank

    def horovod_size(self):
        return -1 if self._mesh is None else self._mesh.size

    horovod_cross_rank = horovod_local_rank = lambda self: -1 if self._mesh is None else 0
    horovod_cross_size = horovod_local_size = lambda self: -1 if self._mesh is None else 1

    def horovod_number_of_process_sets(self):
        return 1

    def horovod_process_set_ids(self, ids):
        ids[0] = 0

    def horovod_process_set_size(self, _):
        return self.horovod_size()

    def horovod_process_set_ranks(self, _, ranks):
        ranks[:] = range(self.horovod_size())
        return 0

    def exchange(self, name, mine):
        if self._mesh is None:
            raise HorovodInternalError("Horovod has not been initialized")
        return self._mesh.exchange(name, mine)

    def _place(self, limit):
        """Rank and size: from the store in an elastic re-init, else from the environment."""
        if self._again and os.environ.get("HOROVOD_ELASTIC") == "1":
            host = "{HOROVOD_HOSTNAME}:{HOROVOD_LOCAL_RANK}".format(**os.environ)
            told = Store(limit).get(f"rank_and_size/{host}").decode().split(",")
            os.environ["HOROVOD_RANK"], os.environ["HOROVOD_SIZE"] = told[:2]
        return int(os.environ.get("HOROVOD_RANK", "0")), int(os.environ.get("HOROVOD_SIZE", "1"))


def _entry(address):
    host, port = address
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s128x", port, socket.inet_aton(host))


def _address(entry):
    port, host = struct.unpack_from("!H4s", entry, 2)
    return socket.inet_ntoa(host), port


def _stopped(pid):
    """Whether this process stands still, or is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    except OSError:
        return True


class Basics(HorovodBasics):
    """Horovod's, over the stand-in's library."""

    def __init__(self):
        self.MPI_LIB_CTYPES = _library
        self.HOROVOD_PROCESS_SET_ERROR_INIT = -1


_library = Library()
_basics = Basics()
process_sets._setup(_basics)

init, shutdown, rank, size = _basics.init, _basics.shutdown, _basics.rank, _basics.size
local_rank, local_size = _basics.local_rank, _basics.local_size
cross_rank, cross_size = _basics.cross_rank, _basics.cross_size


def allreduce(numbers):
    """The mean over all members, number by number."""
    given = _library.exchange("allreduce", [float(one) for one in numbers])
    return [sum(column) / len(given) for column in zip(*given, strict=True)]


def broadcast_object(thing, root_rank=0):
    """The thing of that rank, on every rank; made of what JSON has."""
    mine = _library.horovod_rank()  # as Horovod's own modules do, which hear what is true of the library
    return _library.exchange("broadcast", thing if mine == root_rank else None)[root_rank]


def _reset():
    shutdown()
    init()


elastic = types.SimpleNamespace(run=lambda function: common.run_fn(function, _reset))
