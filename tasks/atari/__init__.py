"""Atari games learnt with A2C (App. A.4)."""
