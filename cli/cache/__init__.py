"""What was computed before, kept between runs."""
