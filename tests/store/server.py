"""A PostgreSQL server from the machine's packages: started for the tests, on a socket, thrown away after."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """Return the folder with initdb and postgres of the newest version there is, None where there is none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    there = shutil.which("initdb")
    return Path(there).resolve().parent if there else None


class Server:
    """A running server. `url` is the address of its database, `stop` and `start` do what they say."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self.bin, self.folder = bin_folder, folder
        self.data = folder / "data"
        self.url = f"postgresql://optsched@/postgres?host={folder}"
        self._process: subprocess.Popen[bytes] | None = None
        # A server refuses to run as root.
        self._user: dict[str, object] = {}
        if os.getuid() == 0:
            names = {each.pw_name: each for each in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def initialise(self) -> None:
        """Make its data folder."""
        command = [
            self.bin / "initdb",
            "-D",
            self.data,
            "-U",
            "optsched",
            "-A",
            "trust",
            "-N",
            "--no-locale",
            "-E",
            "UTF8",
        ]
        self._call(command)

    def start(self) -> None:
        """Start it, and wait until it answers. Nothing it stores has to outlive it."""
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data, *options],
                stdout=log, stderr=log, cwd="/", **self._user,  # type: ignore[call-overload]
            )  # fmt: skip
        ready = [self.bin / "pg_isready", "-q", "-h", self.folder, "-U", "optsched", "-d", "postgres"]
        for _ in range(600):
            if self._process.poll() is not None:
                raise AssertionError((self.folder / "log").read_text())
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def stop(self) -> None:
        """Stop it at once, cutting all connections."""
        if self._process is not None:
            self._process.send_signal(3)
            self._process.wait(timeout=60)
            self._process = None

    def schema(self, name: str) -> str:
        """Return the URL of a new schema: a place for one store."""
        sql = f"CREATE SCHEMA {name}"
        self._call([self.bin / "psql", "-q", "-h", self.folder, "-U", "optsched", "-d", "postgres", "-c", sql])
        return f"{self.url}&options=-csearch_path%3D{name}"

    def _call(self, command: list[object]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self._user)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr


@contextmanager
def running(bin_folder: Path) -> Iterator[Server]:
    """Yield a new server; it is gone after."""
    folder = Path(tempfile.mkdtemp(prefix="optsched-pg-", dir="/tmp"))
    folder.chmod(0o755)
    server = Server(bin_folder, folder)
    try:
        server.initialise()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
