"""What common accountants print for the settings of a run, and for settings near them."""
