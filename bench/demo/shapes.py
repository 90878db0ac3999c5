"""Act 2: the same gangs twice on the same racks, once packed and once spread."""

from dataclasses import replace

from rich.table import Table

from bench.demo.cast import Gang, submit
from bench.demo.palette import Palette
from bench.demo.record import Record
from bench.demo.screen import by_gpu, panel, racks
from bench.demo.stage import Stage
from bench.plane import Fleet
from bench.plane.client import Object

FLEET = Fleet(racks=4, nodes_per_rack=4, gpus=4)
GANGS = [
    Gang("amber", members=8, gpus=2),
    Gang("blue", members=4, gpus=4),
    Gang("coral", members=4, gpus=1),
    Gang("delta", members=2, gpus=2),
]
PALETTE = Palette(gang.name for gang in GANGS)


async def play(stage: Stage) -> None:
    stage.title("2  PACK and SPREAD: one annotation, `gangwright.io/strategy`")
    stage.say(
        "Four racks of four nodes of four GPUs; the same four gangs, once packed and once spread over racks.\n"
    )
    async with stage.cluster(FLEET) as nodes:
        packed = await _placed(stage, "pack")
        spread = await _placed(stage, "spread")
    picture = Table.grid(padding=(0, 1))
    picture.add_row(
        panel(by_gpu(nodes, packed.present(), PALETTE), "PACK"),
        panel(by_gpu(nodes, spread.present(), PALETTE), "SPREAD"),
    )
    stage.console.print(picture)
    stage.console.print(_table(nodes, packed, spread))
    _check(stage, nodes, packed, spread)


async def _placed(stage: Stage, strategy: str) -> Record:
    """A copy of the record as it was when every gang was bound."""
    async with stage.namespace(strategy) as record:
        asked = [replace(gang, strategy=strategy, level="rack") for gang in GANGS]
        await submit(stage.api, strategy, asked, "gangwright")
        await record.until(
            lambda r: len(r.gangs()) == len(GANGS) and all(r.bound(g.name) == g.members for g in GANGS),
            f"every gang has its seats ({strategy})",
        )
        return Record({name: replace(seen) for name, seen in record.pods.items()})


def _spans(nodes: list[Object], record: Record, gang: str) -> tuple[dict[str, int], int]:
    """Members by rack, also the racks that have none; and the number of hosts."""
    rack_of = {node["metadata"]["name"]: rack for rack, own in racks(nodes).items() for node in own}
    counts = dict.fromkeys(rack_of.values(), 0)
    for node in record.nodes(gang):
        counts[rack_of[node]] += 1
    return counts, len(set(record.nodes(gang)))


def _fewest_hosts(gang: Gang) -> int:
    """In an empty rack."""
    return -(-gang.members // (FLEET.gpus // gang.gpus))


def _table(nodes: list[Object], packed: Record, spread: Record) -> Table:
    table = Table("gang", "members × GPUs", "racks PACK", "hosts PACK", "racks SPREAD", "a rack", box=None)
    for gang in GANGS:
        (near, near_hosts), (far, _) = _spans(nodes, packed, gang.name), _spans(nodes, spread, gang.name)
        used = [str(count) for count in (_used(near), near_hosts, _used(far))]
        a_rack = " ".join(str(count) for count in far.values())
        table.add_row(PALETTE.name(gang.name), f"{gang.members} × {gang.gpus}", *used, a_rack)
    return table


def _used(counts: dict[str, int]) -> int:
    return sum(count > 0 for count in counts.values())


def _check(stage: Stage, nodes: list[Object], packed: Record, spread: Record) -> None:
    near = {gang.name: _spans(nodes, packed, gang.name) for gang in GANGS}
    far = {gang.name: _spans(nodes, spread, gang.name) for gang in GANGS}
    stage.claims.check(
        "PACK: every gang in one rack, on the fewest hosts that can hold it",
        all(_used(near[gang.name][0]) == 1 and near[gang.name][1] == _fewest_hosts(gang) for gang in GANGS),
    )
    stage.claims.check(
        "SPREAD: members per rack differ by one at most",
        all(max(counts.values()) - min(counts.values()) <= 1 for counts, _ in far.values()),
    )
    pair = GANGS[-1].name
    stage.claims.check(
        "Two learners of two GPUs on nodes of four: PACK uses one machine, SPREAD two",
        (near[pair][1], far[pair][1]) == (1, 2),
    )
