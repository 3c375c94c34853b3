"""What the suite costs, as ratios measured within one run."""
