"""What everything may know: dtypes, shapes, settings, the mode, random streams, whole files."""
