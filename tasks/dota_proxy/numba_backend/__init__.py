"""The battle for CPUs: one compiled loop over games, everything about a game while it is in the cache."""
