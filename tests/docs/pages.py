"""Pages of the documentation, taken apart: fenced blocks, commands with what they print, links, tables.

How a page is written:

* ```` ```yaml NAME ```` is a file. Blocks with one name on one page are pieces of one file.
* ```` ```console ```` shows commands (`$ optsched …`) and what they print, on standard output and standard error,
  80 columns wide. A line `…` stands for lines that are left out; where there is none, the output is complete.
  `$ echo $?` shows the exit code of the command before it; where it is not asked for, it is 0.
* ```` ```bash NAME ```` and ```` ```python NAME ```` are programs, which a test of their page runs.
* ```` ```sh ```` is for a shell, and ```` ```text ```` a drawing; neither is run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "models" / "formulation.md", *(ROOT / "docs").rglob("*.md")]
)

LEFT_OUT = "…"
_TIMES = (
    (re.compile(r"^(CP-SAT|Greedy plan|No change), [^·]+·"), r"\1, TIME ·"),
    (re.compile(r'"(wall_s|deterministic_s)": [0-9.e-]+'), r'"\1": TIME'),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it stands, its language, the file that it is (or ""), its lines."""

    line: int
    language: str
    file: str
    lines: tuple[str, ...]


@dataclass(slots=True)
class Command:
    """One command of a console block, what is shown of its output, and the exit code that it must have."""

    line: int
    arguments: list[str]
    shown: list[str] = field(default_factory=list)
    code: int = 0


def name_of(page: Path) -> str:
    """Return what a page is called, seen from the top of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    head: list[str] = []
    start, lines, inside = 0, list[str](), False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if inside:
                found.append(Block(start, head[0] if head else "", head[1] if len(head) > 1 else "", tuple(lines)))
            else:
                head, start, lines = line[3:].split(), number, []
            inside = not inside
        elif inside:
            lines.append(line)
    assert not inside, f"{name_of(page)}:{start}: the block has no end"
    return found


def files(page: Path) -> dict[str, str]:
    """Return the files that a page shows, whole."""
    whole: dict[str, str] = {}
    for block in blocks(page):
        if block.file:
            whole[block.file] = whole.get(block.file, "") + "\n".join(block.lines) + "\n"
    return whole


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block."""
    found: list[Command] = []
    asked = False
    for number, line in enumerate(block.lines, block.line + 1):
        if line == "$ echo $?":
            asked = True
        elif line.startswith("$ "):
            found.append(Command(number, shlex.split(line[2:])))
        elif asked:
            found[-1].code, asked = int(line), False
        else:
            found[-1].shown.append(line)
    return found


def without_times(text: str) -> list[str]:
    """Return the lines of an output with what differs from run to run masked."""
    lines = []
    for line in text.splitlines():
        for pattern, instead in _TIMES:
            line = pattern.sub(instead, line)
        lines.append(line.rstrip())
    return lines


def differs(shown: list[str], printed: list[str]) -> str:
    """Return how what is shown differs from what was printed, "" where it does not."""
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line == LEFT_OUT:
            pieces.append([])
        else:
            pieces[-1].append(line)
    at = 0
    for number, piece in enumerate(pieces):
        first, last = number == 0, number == len(pieces) - 1
        starts = [at] if first else range(at, len(printed) - len(piece) + 1)
        if last:
            starts = [start for start in starts if not piece or start + len(piece) == len(printed)]
        place = next((start for start in starts if printed[start : start + len(piece)] == piece), None)
        if place is None:
            return "not printed like this:\n" + "\n".join(piece) + "\n--- but:\n" + "\n".join(printed)
        at = place + len(piece)
    if len(pieces) == 1 and at != len(printed):
        return "printed after that:\n" + "\n".join(printed[at:])
    return ""


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines outside fenced blocks, with their numbers."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(page: Path) -> set[str]:
    """Return what a link may name inside a page: its headings, the way that GitHub writes them."""
    found = set()
    for _, line in prose(page):
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def first_cells(page: Path, heading: str) -> list[str]:
    """Return the code in the first column of the tables under a heading, up to the next heading."""
    found: list[str] = []
    inside = False
    for _, line in prose(page):
        if line.startswith("#"):
            inside = line.lstrip("#").strip() == heading
        elif inside and line.startswith("| `"):
            found += re.findall(r"`([^`]+)`", line.split("|")[1])
    return found
