"""What programs ask a tensor beside its ops: where and how it lies, and its text."""
