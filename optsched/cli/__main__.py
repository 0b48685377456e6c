"""`python -m optsched.cli` is `optsched`."""

from __future__ import annotations

import sys

from optsched.cli.entry import main

sys.exit(main())
