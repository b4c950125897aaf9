"""Five published systems: what they claim, exactly as printed, and what can be proven."""
