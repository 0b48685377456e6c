"""optsched: a constraint-optimization placement engine for shared GPU training clusters."""

__version__ = "0.1.0"
