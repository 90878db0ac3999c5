"""Ports that stay ours."""

import socket

import pytest

from bench.plane.ports import HOST, Ports, answers


def test_kept_port_is_not_given_away() -> None:
    """A kept port is refused to strangers, open to a program that shares it, and free after `close`."""
    ports = Ports()
    port = ports.take()

    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((HOST, port))
    with socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        ours.bind((HOST, port))
    ports.close()
    with socket.socket() as anybody:
        anybody.bind((HOST, port))


def test_kept_port_answers_nobody() -> None:
    """While its program is down, connections to a kept port are refused at once, as on a port that is closed."""
    ports = Ports()
    port = ports.take()

    assert not answers(f"http://{HOST}:{port}/")
    ports.close()
