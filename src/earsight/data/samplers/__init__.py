"""Samplers: one file each, whose `order` says which clips an epoch trains on, and in which order."""
