"""Who holds which records: federations, their allocation, moments and scales."""
