"""The sweep of special points: every pointwise op, activation and loss where numbers are odd."""
