"""Plain code in the style of the published recipe, to measure against: fp32, one sample at a time, PIL and scipy.

It takes nothing from earsight but the names of settings, and says the same: tests/benchmarks holds both together.
"""
