"""How the rounds of `optsched bench quality` are made, and how their table of best known values is found."""
