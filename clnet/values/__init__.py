"""What everything may know: dtypes, shapes, settings, the mode, streams of random numbers, files."""
