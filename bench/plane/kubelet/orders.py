"""From what a pod says of a container to what is to be started on this machine."""

import re
from dataclasses import replace
from pathlib import Path

from bench.plane.client import Object
from bench.plane.kubelet import environment
from bench.plane.kubelet.container import Order
from bench.plane.kubelet.environment import Addresses, ConfigError, Reference
from bench.plane.kubelet.ground import Ground
from bench.plane.kubelet.images import Image
from bench.plane.kubelet.volumes import Volumes, content

Contents = dict[Reference, dict[str, str]]


class Orders:
    """Of one pod. folder: its own; logs: where its containers write."""

    def __init__(
        self, ground: Ground, pod: Object, addresses: Addresses, volumes: Volumes, folder: Path, logs: Path
    ) -> None:
        self._ground = ground
        self._pod = pod
        self._addresses = addresses
        self._volumes = volumes
        self._folder = folder
        self._logs = logs

    async def of(self, said: Object, image: Image, number: int) -> Order:
        """The order for one run of a container, its `number`-th. Raises ConfigError, ApiError."""
        if "restartPolicy" in said:
            raise ConfigError(f"container {said['name']}: a restartPolicy of its own is not known here")
        name: str = self._pod["metadata"]["name"]
        first = {**image.environment(), "HOSTNAME": name, **self._ground.cluster}
        contents = await self._contents(said)
        known = environment.environment(said, self._pod, self._addresses, contents, first)
        mounts = [(str(own.source), own.path, own.read_only) for own in self._volumes.mounts(said)]
        root = self._folder / "roots" / f"{said['name']}-{number}"
        root.mkdir(parents=True, exist_ok=True)
        order = Order(
            command=environment.words(said, image.entrypoint, known),
            env=known,
            log=str(self._logs / f"{said['name']}-{number}.log"),
            root=str(root),
            hostname=name[:63],
            mounts=[*mounts, (str(self._hosts(name)), "/etc/hosts", False)],
            folder=said.get("workingDir") or image.folder,
            isolation=self._ground.isolation,
        )
        return order if self._ground.isolation != "none" else rewritten(order)

    async def _contents(self, said: Object) -> Contents:
        found: Contents = {}
        for reference, optional in environment.references(said):
            try:
                keys = await content(self._ground.api, reference, self._pod["metadata"]["namespace"])
            except ConfigError:
                if not optional:
                    raise
            else:
                found[reference] = {name: value.decode() for name, value in keys.items()}
        return found

    def _hosts(self, name: str) -> Path:
        """The pod's /etc/hosts: it knows its own name."""
        place = self._folder / "hosts"
        place.write_text(f"127.0.0.1 localhost\n{self._addresses.pod} {name}\n", encoding="utf-8")
        return place


def rewritten(order: Order) -> Order:
    """The order for a machine without namespaces: wherever a word names a mount path, it names the folder itself.

    A path counts at a word's beginning and after `=`, `:`, `,`, a quote or a space, as a whole or with more behind it.
    What a program has the path compiled in for, it will not find.
    """
    longest_first = sorted(order.mounts, key=lambda own: -len(own[1]))

    def put(word: str) -> str:
        for source, path, _ in longest_first:
            word = re.sub(rf"(?<![^=:,'\"\s]){re.escape(path.rstrip('/'))}(?![\w.-])", source, word)
        return word

    env = {name: put(value) for name, value in order.env.items()}
    return replace(order, command=[*map(put, order.command)], env=env, folder=put(order.folder), mounts=())
