"""The real control plane on one machine: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok.

Lives here: how these programs are built, started, spoken to and stopped, and fake nodes for them. The tests, the demo
and the load bench stand on it; by hand it is `python -m bench.plane up`.
Never here: the product. This package imports nothing of `scheduler`, so that it can be believed when they disagree.

    sources → toolchain → binaries        which programs, built how, kept where
    certificates, ports, processes        who is who, where, and how a child lives and dies
    commands, configuration → control_plane   command lines → the Plane
    client → watches, nodes, audit        what a test says to it and sees of it
    kubelet                               nodes whose pods run as processes of this machine
    proxy                                 a door before the API server, to shut, hold and cut
    installation                          Gangwright on the plane, as manifests/ install it on a cluster
    elastic_master                        the elastic master there, likewise
"""

from bench.plane.certificates import ADMIN, Identity, service_account
from bench.plane.client import Client, where
from bench.plane.control_plane import Plane
from bench.plane.errors import ApiError, NeverCameError, PlaneError
from bench.plane.nodes import Fleet

__all__ = [
    "ADMIN",
    "ApiError",
    "Client",
    "Fleet",
    "Identity",
    "NeverCameError",
    "Plane",
    "PlaneError",
    "service_account",
    "where",
]
