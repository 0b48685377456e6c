"""The service: requests and agents in front of the engine, one leader's loop behind them, nothing lost in between."""
