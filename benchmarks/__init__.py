"""Side-by-side speed measurements: each against a plain reference, in one run, as a ratio. Never part of the tests."""
