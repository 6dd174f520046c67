"""What a model needs before it runs: memory, operations, a step's time on one device or several."""
