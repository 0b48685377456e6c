"""Generated from service/proto/optsched/v1 by `make proto`."""
