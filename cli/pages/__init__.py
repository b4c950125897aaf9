"""The pages of `privplan explain`."""
