"""From the facts of one round to the event that they prove before one observer."""
