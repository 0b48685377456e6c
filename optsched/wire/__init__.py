"""Between the wire and values: the generated code of the contract, conversions, and errors as status codes."""
