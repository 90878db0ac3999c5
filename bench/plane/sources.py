"""Which programs make the plane, from which Go module each comes, and in which version.

The versions are those of `modules/*/go.mod` and stand nowhere else, so a bump of one of those files is a bump of the
plane (and of the cache's folder). Pure: reads the three files, starts nothing.
"""

import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"

VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Source:
    """One wrapper module under `modules/` and the programs that are built from it."""

    folder: str
    module: str
    """The Go module whose version is the version of the programs."""
    packages: dict[str, str]
    """Program → Go package; built by one `go build`, so what they share is compiled once."""

    @property
    def path(self) -> Path:
        return MODULES / self.folder

    @property
    def version(self) -> str:
        """`1.37.0`, without Go's leading v."""
        return required(self.go_mod, self.module)

    @property
    def go_mod(self) -> str:
        return (self.path / "go.mod").read_text(encoding="utf-8")

    @property
    def ldflags(self) -> str:
        """Flags of the linker: no symbol tables; Kubernetes' programs also learn their own version.

        Without it the API server reports v0.0.0 and its clients misjudge what it can do.
        """
        if self.folder != "kubernetes":
            return "-s -w"
        major, minor, _ = self.version.split(".")
        room = "k8s.io/component-base/version"
        told = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {room}.{name}={value}" for name, value in told.items())])


ETCD = Source("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
KUBERNETES = Source(
    "kubernetes",
    "k8s.io/kubernetes",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
    },
)
KWOK = Source("kwok", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})

SOURCES = (ETCD, KUBERNETES, KWOK)
PROGRAMS = {program: source for source in SOURCES for program in source.packages}


def required(go_mod: str, module: str) -> str:
    """The version of `module` in the text of a go.mod, without the leading v."""
    found = re.search(rf"^(?:require\s+)?\s*{re.escape(module)} v(\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise LookupError(f"go.mod does not require {module}")
    return found[1]


def needed_go() -> tuple[int, int, int]:
    """The oldest Go that every wrapper module accepts."""
    lines = (re.search(r"^go (\S+)", source.go_mod, re.MULTILINE) for source in SOURCES)
    return max(release(line[1]) for line in lines if line is not None)


def release(text: str) -> tuple[int, int, int]:
    """The first version in `text` as numbers; a missing patch counts as 0."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        raise LookupError(f"no version in {text!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def same_minor(one: str, other: str) -> bool:
    """True when two versions differ in their patch only."""
    return release(one)[:2] == release(other)[:2]
