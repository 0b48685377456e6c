"""`python -m optsched.cli` is `optsched`."""

from __future__ import annotations

import sys

from optsched.cli.main import main

sys.exit(main())
