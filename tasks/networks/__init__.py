"""Networks that several tasks share."""
