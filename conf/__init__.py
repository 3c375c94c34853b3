"""Hydra configs, found as pkg://conf."""
