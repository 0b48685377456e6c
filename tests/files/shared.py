"""Where published traces lie beside a checkout, or beside the folder of checkouts; tests of them skip elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOUND = [folder / "shared" / "data" for folder in Path(__file__).resolve().parents[3:5]]
DATA = next((folder for folder in _FOUND if folder.is_dir()), _FOUND[0])

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published traces are not here")
