"""privplan inside of other libraries: one file for each, which alone imports that library."""
