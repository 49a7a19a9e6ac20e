"""Every method on the built-in set under one budget, and SLAVC's ablations: python -m studies.toybox"""
