"""The command line: python -m benchmarks.rounds KIND SEED [--out FILE], or --list."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from benchmarks.rounds.generate import compress, encode, generate
from benchmarks.rounds.kinds import KINDS


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(2)


def main(arguments: list[str] | None = None) -> int:
    """Write one round to a file or to standard output; return the exit code."""
    parser = _Parser(prog="benchmarks.rounds", description="Generate a round: a busy cluster, as a snapshot.")
    parser.add_argument("kind", nargs="?", metavar="KIND", help="one of those that --list shows")
    parser.add_argument("seed", nargs="?", metavar="SEED", help="a whole number from 0 on")
    parser.add_argument("--out", type=Path, metavar="FILE", help="FILE.json or FILE.json.gz; else JSON to the output")
    parser.add_argument("--list", action="store_true", help="show the kinds")
    args = parser.parse_args(arguments)
    if args.list:
        for kind in KINDS.values():
            print(f"{kind.name:15} {kind.about}")
        return 0
    if args.kind is None or args.seed is None:
        parser.error("KIND and SEED are missing; allowed: KIND SEED [--out FILE], or --list")
    if args.kind not in KINDS:
        parser.error(f"KIND: {args.kind!r} is not known; allowed: {', '.join(KINDS)}")
    if not (args.seed.isascii() and args.seed.isdigit()):
        parser.error(f"SEED: {args.seed!r} is no seed; allowed: a whole number from 0 on")
    out: Path | None = args.out
    if out is not None and not out.name.endswith((".json", ".json.gz")):
        parser.error(f"--out: {str(out)!r} is neither .json nor .json.gz; allowed: FILE.json, FILE.json.gz")
    if out is not None and not out.parent.is_dir():
        parser.error(f"--out: {str(out.parent)!r} is no folder; allowed: a path in a folder that exists")
    data = encode(generate(args.kind, int(args.seed)))
    if out is None:
        sys.stdout.write(data.decode() + "\n")
    else:
        out.write_bytes(compress(data) if out.name.endswith(".gz") else data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
