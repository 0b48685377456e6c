"""Generates `optsched/wire/v1/` from the contract in service/proto. Run by `make proto`.

The files of the contract are named `optsched/v1/…`, as clients in any language have them; in Python that folder would
lie inside the package, so the generated modules move to `optsched.wire.v1`, and their imports with them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "service" / "proto"
TARGET = ROOT / "optsched" / "wire" / "v1"
BASELINE = ROOT / "service" / "proto" / "baseline.binpb"


def names() -> list[str]:
    """Return the files of the contract, as they name each other."""
    return sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))


def compile_to(folder: Path, *options: str) -> None:
    """Run the stock compiler on the contract. Raises SystemExit where it finds fault.

    In a process of its own: the compiler brings a Protobuf and an Abseil that do not go with those of others.
    """
    common = str(resources.files("grpc_tools") / "_proto")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{common}", *options, *names()]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("the contract does not compile")


def generate(target: Path) -> None:
    """Write the generated modules into `target`, which is emptied first."""
    with tempfile.TemporaryDirectory() as scratch:
        compile_to(Path(scratch), f"--python_out={scratch}", f"--pyi_out={scratch}", f"--grpc_python_out={scratch}")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        (target / "__init__.py").write_text('"""Generated from service/proto/optsched/v1 by `make proto`."""\n')
        for path in sorted((Path(scratch) / "optsched" / "v1").iterdir()):
            text = path.read_text().replace("from optsched.v1 import", "from optsched.wire.v1 import")
            if not path.name.endswith("_grpc.py") or "class " in text:
                (target / path.name).write_text(text)


def describe(path: Path) -> None:
    """Write what the contract is, compiled, for comparison with later ones."""
    compile_to(path.parent, f"--descriptor_set_out={path}")


def main() -> int:
    """Generate the code; with --baseline note the contract as released, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baseline", action="store_true", help="note the contract as released")
    given = parser.parse_args()
    generate(TARGET)
    if given.baseline:
        describe(BASELINE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
