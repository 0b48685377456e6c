"""What is done with a trace before it is simulated: described, scaled, filled in; and a generator of one."""

from __future__ import annotations
