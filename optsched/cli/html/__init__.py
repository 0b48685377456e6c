"""Results of simulations as one HTML page that needs nothing else: no network, no scripts; plots are inline SVG.

Plots are written out by hand: they are few and simple, take the reader's light or dark theme by style sheet, and stay a
hundredth of the size of what a plotting library embeds.
"""

from __future__ import annotations
