"""The ranks of a gang, joined over TCP: rank 0 listens where MASTER_ADDR and MASTER_PORT say, the others call it."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class Stopped(Exception):
    """The gang was told to stop before it had come together."""


@dataclass
class Gang:
    """One rank's place in its gang. Rank 0 has a connection to each other rank, those have one to it."""

    rank: int
    world: int
    peers: list[socket.socket] = field(default_factory=list)
    name: str = ""

    @classmethod
    def join(cls, told: Callable[[], bool], longest_s: float = 120.0) -> Gang:
        """Come together as the environment says. `told`: whether it was told to stop. Raises OSError or Stopped."""
        gang = cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
        # Which run of which job: what calls at a port, or answers there, may be of another.
        gang.name = f"{os.environ.get('OPTSCHED_JOB', '')}/{os.environ.get('OPTSCHED_RUN', '')}"
        where = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
        end = time.monotonic() + longest_s
        if gang.rank == 0 and gang.world > 1:
            gang._listen(where[1], told, end)
        elif gang.rank > 0:
            gang.peers = [gang._call(where, told, end)]
        return gang

    def _listen(self, port: int, told: Callable[[], bool], end: float) -> None:
        found: dict[int, socket.socket] = {}
        with socket.create_server(("", port)) as listener:
            listener.settimeout(0.1)
            while len(found) < self.world - 1:
                _patient(told, end)
                try:
                    peer, _ = listener.accept()
                except TimeoutError:
                    continue
                peer.settimeout(5)
                try:
                    gang, _, rank = receive(peer).decode().rpartition(" ")
                    if gang != self.name:
                        raise ConnectionError("of another gang")
                    send(peer, b"welcome")
                except (OSError, ValueError):
                    peer.close()
                    continue
                peer.settimeout(None)
                found[int(rank)] = peer
        self.peers = [found[rank] for rank in sorted(found)]

    def _call(self, where: tuple[str, int], told: Callable[[], bool], end: float) -> socket.socket:
        while True:
            _patient(told, end)
            try:
                peer = socket.create_connection(where, timeout=5)
            except OSError:
                time.sleep(0.05)
                continue
            try:
                send(peer, f"{self.name} {self.rank}".encode())
                receive(peer)
            except OSError:
                # Nobody is there any more, or another gang, which had the port before.
                peer.close()
                time.sleep(0.05)
                continue
            peer.settimeout(None)
            return peer

    def exchange(self, mine: bytes, combine: Callable[[list[bytes]], bytes]) -> bytes:
        """Give every rank what rank 0 makes of what all ranks bring, in the order of ranks."""
        if self.rank > 0:
            send(self.peers[0], mine)
            return receive(self.peers[0])
        answer = combine([mine, *(receive(peer) for peer in self.peers)])
        for peer in self.peers:
            send(peer, answer)
        return answer


def _patient(told: Callable[[], bool], end: float) -> None:
    if told():
        raise Stopped
    if time.monotonic() > end:
        raise TimeoutError("the gang did not come together")


def send(peer: socket.socket, data: bytes) -> None:
    """Send some bytes, with how many they are."""
    peer.sendall(struct.pack("<Q", len(data)) + data)


def receive(peer: socket.socket) -> bytes:
    """Return what `send` sent."""
    (size,) = struct.unpack("<Q", _exactly(peer, 8))
    return _exactly(peer, size)


def _exactly(peer: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = peer.recv(size - len(found))
        if not part:
            raise ConnectionError("a rank of the gang is gone")
        found += part
    return bytes(found)
