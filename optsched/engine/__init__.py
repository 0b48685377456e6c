"""The scheduler through time: one pure state machine, `(state, event, now) -> state', commands`.

Service, simulator and replay feed it events and take its commands; it reads no clock, draws nothing and does no I/O.
"""
