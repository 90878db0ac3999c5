"""Reserve, release and back off, told so briefly that every state of it can be visited.

A model of what the ledger does (`plans`, `care`, `pins`, `recovery`), not the ledger itself, whose states are too many:
a few nodes that hold one pod each, and a few gangs whose pods are made again when they are evicted. It keeps what
matters for getting stuck: all seats of a gang or none; the plan is written before anybody is let go; each PATCH lands
by itself, and one that its sender has given up or died over may still land late; a pin cannot be undone but by an
eviction; a restart believes only what fits; a gang that is not bound in time gives everything back and waits a while.
Time limits pass at any moment. It leaves out: nominations, who asks whom, and the delay of watches (what the API server
knows, the service knows).

What is on its way follows from the step: the note while WRITING, and while LETTING_GO a PATCH for each gated pod with a
seat. Nodes are alike, and so are the members of a gang: of states that differ by their names one is kept.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Final, NamedTuple

GATED: Final = -1
BOUND: Final = 100
"""A pod is gated, pinned to node n (n), or bound to it (BOUND + n)."""
NONE: Final = -2
"""No node."""

IDLE, WRITING, LETTING_GO = range(3)


class Pod(NamedTuple):
    """where: GATED, pinned or bound. seat: the node that the service holds for it. note: its node in the written
    plan.
    """

    where: int = GATED
    seat: int = NONE
    note: int = NONE

    @property
    def pinned(self) -> bool:
        return 0 <= self.where < BOUND


class Gang(NamedTuple):
    """pods: none, when it has ended."""

    pods: tuple[Pod, ...]
    step: int = IDLE
    backs_off: bool = False

    @property
    def whole(self) -> bool:
        return bool(self.pods) and all(pod.where >= BOUND for pod in self.pods)

    def put(self, number: int, pod: Pod) -> "Gang":
        return self._replace(pods=(*self.pods[:number], pod, *self.pods[number + 1 :]))


class Late(NamedTuple):
    """A PATCH that nobody waits for any more. seats: of a plan's note, by pod; else one pod is let go to its node."""

    gang: int
    pod: int = NONE
    node: int = NONE
    seats: tuple[int, ...] = ()


class State(NamedTuple):
    """stranger: the node that another scheduler has taken. strangers, crashes: how many there may still be."""

    gangs: tuple[Gang, ...]
    late: Late | None = None
    stranger: int = NONE
    strangers: int = 1
    crashes: int = 1

    def put(self, number: int, gang: Gang) -> "State":
        return self._replace(gangs=(*self.gangs[:number], gang, *self.gangs[number + 1 :]))

    @property
    def done(self) -> bool:
        return not any(gang.pods for gang in self.gangs)


def start(sizes: Iterable[int], *, strangers: int = 1, crashes: int = 1) -> State:
    """Gangs of so many members, all of them gated."""
    return State(tuple(Gang((Pod(),) * size) for size in sizes), strangers=strangers, crashes=crashes)


@dataclass(frozen=True)
class Protocol:
    """The moves of a world of so many nodes.

    whole: all seats of a gang or none. limits: who is not bound in time gives back.
    """

    nodes: int = 3
    whole: bool = True
    limits: bool = True

    def moves(self, state: State) -> Iterator[State]:
        """Every state that may follow, but for accidents."""
        yield from self._plans(state)
        for number, gang in enumerate(state.gangs):
            yield from self._goes_on(state, number, gang)
        if state.late is not None:
            yield state._replace(late=None)
            yield self._lands_late(state._replace(late=None), state.late)
        if state.stranger != NONE:
            yield state._replace(stranger=NONE)

    def accidents(self, state: State) -> Iterator[State]:
        """The service dies, or gives up waiting for an answer, and of what it sent one may land later; another
        scheduler takes a node.
        """
        if state.crashes:
            after = state._replace(crashes=state.crashes - 1)
            yield self._restarted(after)
            for late in _under_way(state):
                yield self._restarted(after._replace(late=late))
                yield _given_back(after, late.gang, state.gangs[late.gang])._replace(late=late)
        if state.strangers and state.stranger == NONE:
            for node in set(range(self.nodes)) - _bound(state):
                yield state._replace(stranger=node, strangers=state.strangers - 1)

    def _goes_on(self, state: State, number: int, gang: Gang) -> Iterator[State]:
        if gang.step == WRITING:
            noted = tuple(pod._replace(note=pod.seat) for pod in gang.pods)
            yield state.put(number, gang._replace(pods=noted, step=LETTING_GO))
        for place, pod in enumerate(gang.pods):
            if gang.step == LETTING_GO and pod.where == GATED and pod.seat != NONE:
                yield state.put(number, gang.put(place, pod._replace(where=pod.seat)))
            if pod.pinned:
                taken = pod.where in _bound(state)
                after = Pod(note=pod.note) if taken else Pod(BOUND + pod.where, note=pod.note)
                yield state.put(number, gang.put(place, after))
        if gang.whole:
            yield state.put(number, Gang(()))
        if self.limits and not gang.whole and any(pod[:2] != (GATED, NONE) for pod in gang.pods):
            yield _given_back(state, number, gang)
        if gang.backs_off:
            yield state.put(number, gang._replace(backs_off=False))

    # ── the service ─────────────────────────────────────────────────────────────────────────────────────

    def _free(self, state: State) -> list[int]:
        held = {pod.seat for gang in state.gangs for pod in gang.pods}
        return sorted(set(range(self.nodes)) - _bound(state) - held)

    def _plans(self, state: State) -> Iterator[State]:
        """The first gang in order that fits: those in part first, then who came first."""
        free = self._free(state)
        for number in sorted(range(len(state.gangs)), key=lambda n: (not _is_in_part(state.gangs[n]), n)):
            gang = state.gangs[number]
            lacking = [n for n, pod in enumerate(gang.pods) if pod.where == GATED and pod.seat == NONE]
            astray = any(pod.pinned and pod.seat == NONE for pod in gang.pods)
            if not lacking or not free or gang.backs_off or gang.step == WRITING or astray:
                continue
            if self.whole and len(lacking) > len(free):
                continue
            for place, node in zip(lacking, free, strict=False):
                gang = gang.put(place, gang.pods[place]._replace(seat=node))
            yield state.put(number, gang._replace(step=WRITING))
            return

    def _lands_late(self, state: State, late: Late) -> State:
        gang = state.gangs[late.gang]
        if not gang.pods:
            return state
        if late.seats:
            noted = (pod._replace(note=node) for pod, node in zip(gang.pods, late.seats, strict=True))
            return state.put(late.gang, gang._replace(pods=tuple(noted)))
        pod = gang.pods[late.pod]
        if pod.where != GATED:
            return state
        held = pod.seat == late.node or late.node in self._free(state)
        let_go = pod._replace(where=late.node, seat=late.node if held else NONE)
        return state.put(late.gang, gang.put(late.pod, let_go))

    def _restarted(self, state: State) -> State:
        """All that the service had in mind is gone; it believes what it finds, as far as it fits."""
        for number, gang in enumerate(state.gangs):
            state = state.put(number, Gang(tuple(pod._replace(seat=NONE) for pod in gang.pods)))
        for number, gang in enumerate(state.gangs):
            for place, pod in enumerate(gang.pods):
                if pod.pinned and pod.where in self._free(state):
                    believed = state.gangs[number].put(place, pod._replace(seat=pod.where))
                    state = state.put(number, believed)
        for number in range(len(state.gangs)):
            state = self._finished(state, number)
        return state

    def _finished(self, state: State, number: int) -> State:
        """A written plan goes on when the seats of all who were not let go yet are free, else it is taken away."""
        gang = state.gangs[number]
        lacking = [pod.note for pod in gang.pods if pod.where == GATED and pod.note != NONE]
        if not lacking or not set(lacking) <= set(self._free(state)):
            return state.put(number, gang._replace(pods=tuple(pod._replace(note=NONE) for pod in gang.pods)))
        seated = tuple(
            pod._replace(seat=pod.note) if pod.where == GATED and pod.note != NONE else pod
            for pod in gang.pods
        )
        return state.put(number, gang._replace(pods=seated, step=LETTING_GO))


def _bound(state: State) -> set[int]:
    """Nodes that hold a pod, of ours or of a stranger."""
    ours = {pod.where - BOUND for gang in state.gangs for pod in gang.pods if pod.where >= BOUND}
    return ours | ({state.stranger} - {NONE})


def _is_in_part(gang: Gang) -> bool:
    return any(pod.where >= BOUND for pod in gang.pods) and not gang.whole


def _under_way(state: State) -> Iterator[Late]:
    """The PATCHes that are sent and not answered."""
    for own, gang in enumerate(state.gangs):
        if gang.step == WRITING:
            yield Late(own, seats=tuple(pod.seat for pod in gang.pods))
        if gang.step == LETTING_GO:
            waiting = [n for n, pod in enumerate(gang.pods) if pod.where == GATED and pod.seat != NONE]
            yield from (Late(own, place, gang.pods[place].seat) for place in waiting)


def _given_back(state: State, number: int, gang: Gang) -> State:
    """Not bound in time: who was let go is evicted, all seats are given back, and the gang waits."""
    return state.put(number, Gang((Pod(),) * len(gang.pods), backs_off=True))


# ── every state ──────────────────────────────────────────────────────────────────────────────────────────────


def plain(state: State, nodes: int) -> State:
    """The same state with nodes and members named in one fixed way."""
    return min((_renamed(state, order) for order in permutations(range(nodes))), key=_by_value)


def _by_value(state: State) -> tuple[object, ...]:
    return (state.gangs, state.late or (), state.stranger)


def _renamed(state: State, order: tuple[int, ...]) -> State:
    read = state.crashes > 0  # a note is read by the next restart alone
    late = state.late if state.late is not None and state.gangs[state.late.gang].pods else None
    if late is not None and late.seats and not read:
        late = None
    own = [late if late is not None and late.gang == number else None for number in range(len(state.gangs))]
    renamed = [_renamed_gang(gang, of, order, read) for gang, of in zip(state.gangs, own, strict=True)]
    moved = None if late is None else renamed[late.gang][1]
    stranger = _names(order)[state.stranger]
    return State(tuple(gang for gang, _ in renamed), moved, stranger, state.strangers, state.crashes)


@cache
def _names(order: tuple[int, ...]) -> dict[int, int]:
    """What stands for a node → what stands for it under its new name."""
    names = {NONE: NONE, GATED: GATED, **dict(enumerate(order))}
    return names | {BOUND + node: BOUND + new for node, new in enumerate(order)}


@cache  # three gangs of two: of three and a half million gangs that are renamed, five thousand differ
def _renamed_gang(
    gang: Gang, late: Late | None, order: tuple[int, ...], read: bool
) -> tuple[Gang, Late | None]:
    """The gang with its members in order, and what may land on one of them late, where it does."""
    names = _names(order)
    pods = [Pod(names[pod.where], names[pod.seat], names[pod.note if read else NONE]) for pod in gang.pods]
    marks = [_mark(late, place, names) for place in range(len(pods))]
    places = sorted(range(len(pods)), key=lambda place: (pods[place], marks[place]))
    moved = None if late is None else _moved(late, places, names)
    return gang._replace(pods=tuple(pods[place] for place in places)), moved


def _mark(late: Late | None, place: int, names: dict[int, int]) -> tuple[int, ...]:
    """What sets this member apart from another in the same state: what may land on it late."""
    if late is None:
        return ()
    return (names[late.seats[place]],) if late.seats else (names[late.node] if late.pod == place else NONE,)


def _moved(late: Late, places: list[int], names: dict[int, int]) -> Late:
    if late.seats:
        return Late(late.gang, seats=tuple(names[late.seats[place]] for place in places))
    return Late(late.gang, places.index(late.pod), names[late.node])


def explore(first: State, protocol: Protocol) -> tuple[int, set[State]]:
    """How many states can be reached, and those from which the end cannot be reached without a further accident."""
    follow: Callable[[State], Iterator[State]] = protocol.moves
    reached, new = {first}, [first]
    before: dict[State, list[State]] = {}
    while new:
        state = new.pop()
        calm = {plain(after, protocol.nodes) for after in follow(state)}
        for after in calm:
            before.setdefault(after, []).append(state)
        wild = {plain(after, protocol.nodes) for after in protocol.accidents(state)}
        fresh = (calm | wild) - reached
        reached |= fresh
        new += fresh
    ends = [state for state in reached if state.done]
    good = set(ends)
    while ends:
        for state in before.get(ends.pop(), ()):
            if state not in good:
                good.add(state)
                ends.append(state)
    return len(reached), reached - good
