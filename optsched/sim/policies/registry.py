"""All policies, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from optsched.sim.policies.backfill import BACKFILL
from optsched.sim.policies.fifo import FIFO
from optsched.sim.policies.own import OWN
from optsched.sim.policies.policy import Policy
from optsched.sim.policies.reclaim import RECLAIM

POLICIES: Mapping[str, Policy] = MappingProxyType({each.name: each for each in (*OWN, *FIFO, *BACKFILL, *RECLAIM)})
"""Every policy by its name, optsched's own first."""
