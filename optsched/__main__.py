"""`python -m optsched` is `optsched`."""

from __future__ import annotations

import sys

from optsched.cli.main import main

sys.exit(main())
