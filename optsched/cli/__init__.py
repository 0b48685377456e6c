"""The command line: one module per group of commands, rendering apart.

main             the commands, exit codes, errors to lines
plan, explain, topology, profile   what each command does
inputs, options  what commands have in common: reading, and arguments
facts            what a plan means for its snapshot: counts before and after, room, spans
places, words    node lists, durations and amounts as people write them
render_*         values to text or JSON; they print nothing
tables           columns that fit a width
terminal         colour, width, progress, output

Commands import what is heavy (loaders, solver) only when they run, so that help and refusals are quick.
"""
