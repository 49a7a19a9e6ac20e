"""DMC whose first preset is its original form, for the checks that every method goes through with its first preset."""

from earsight.methods.dmc import Config, Model, paper

PRESETS = {"paper": paper}
__all__ = ["PRESETS", "Config", "Model"]
