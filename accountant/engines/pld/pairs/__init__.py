"""The pairs that dominate a release, and those that it attains: one file a family of event."""
