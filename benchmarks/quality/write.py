"""Write the rounds of the library: python -m benchmarks.quality.write

The same code gives the same bytes. A round whose content changes needs a new entry in the table: see
benchmarks.quality.best.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.quality.busy import BUSY
from benchmarks.quality.packing import PACKING
from benchmarks.quality.taking import TAKING
from optsched.files.plan_json import write

FOLDER = Path(__file__).resolve().parents[2] / "optsched" / "examples" / "quality"


def rounds() -> dict[str, str]:
    """Return the text of every round by its name."""
    made = [make() for make in (*PACKING, *TAKING, *BUSY)]
    return {str(entry["about"]["name"]): write(entry) for entry in made}


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in rounds().items():
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
