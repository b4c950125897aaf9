"""Files of other libraries, read without running anything in them."""
