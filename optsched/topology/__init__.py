"""The static side of placement: which node is in which domain, how GPUs are linked, what a span costs.

A tree is built once per generation of the cluster and shared read-only by every round of it.

tree      domains per level, and the span of a set of nodes
speeds    what a span costs
quality   how well a set of GPUs of one node is linked
links     which GPUs of a node to take
ranks     the order of a gang's tasks, and the slices that they form
graph     the same topology as a networkx graph, down to the GPU
validate  what a cluster looks like
findings  what looks wrong in it
"""
