"""How it is measured: trainer, noise scale, sweep, trade-off fit, records, report."""
