"""Five published systems: what they claim, exactly as printed, beside what can be proven."""
